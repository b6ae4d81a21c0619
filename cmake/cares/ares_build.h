// What <ares.h> must know about the system: Linux, any libc.
#pragma once

#include <arpa/nameser.h>
#include <arpa/nameser_compat.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>

#define CARES_HAVE_ARPA_NAMESER_COMPAT_H
#define CARES_HAVE_ARPA_NAMESER_H
#define CARES_HAVE_SYS_SELECT_H
#define CARES_HAVE_SYS_SOCKET_H
#define CARES_HAVE_SYS_TYPES_H
#define CARES_TYPEOF_ARES_SOCKLEN_T socklen_t
#define CARES_TYPEOF_ARES_SSIZE_T ssize_t
