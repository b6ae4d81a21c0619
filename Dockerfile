# The one binary in an image of its own, for COPY --from=rankshim /rankshim /usr/local/bin/rankshim
FROM debian:bookworm AS build
WORKDIR /rankshim
COPY scripts/setup scripts/setup
COPY scripts/pins scripts/pins
RUN scripts/setup build
COPY . .
RUN scripts/build

FROM scratch
COPY --from=build /rankshim/dist/rankshim /rankshim
ENTRYPOINT ["/rankshim"]
