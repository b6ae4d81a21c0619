# An image that has the binary and nothing else, for COPY --from=rankshim /rankshim /usr/local/bin/rankshim
FROM debian:bookworm@sha256:813017f3d62be4b5891a7acca6a01bdcd4b8513daa81b1ab99d3a50385b26931 AS build
# zig's cache is keyed by its own place too: a build with this checkout's path can share one.
ARG FOLDER=/rankshim
WORKDIR $FOLDER
COPY scripts/setup scripts/setup
COPY scripts/pins scripts/pins
RUN scripts/setup build
COPY . .
RUN scripts/build && cp dist/rankshim /rankshim.built

FROM scratch
COPY --from=build /rankshim.built /rankshim
# A number: with a name, Kubernetes could not check `runAsNonRoot`.
USER 65532:65532
ENTRYPOINT ["/rankshim"]
