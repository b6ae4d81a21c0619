# A user's image: the one that was there before, and rankshim as its entrypoint.
FROM debian:bookworm-slim
COPY --from=rankshim /rankshim /usr/local/bin/rankshim
ENTRYPOINT ["rankshim", "--"]
