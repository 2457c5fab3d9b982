# Built and run on the same Debian release, because SQLite is compiled in with cgo. Images
# have a digest, so that a moved tag changes nothing. CONTRIBUTING.md says how to update them.
FROM golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=0.1.0
RUN CGO_ENABLED=1 go build -trimpath -buildvcs=false \
        -ldflags "-s -w -X perennial/cmd/perennial/internal/config.Version=${VERSION}" -o /out/perennial ./cmd/perennial \
 && install -d -m 0700 /out/data

FROM debian:bookworm-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/perennial /usr/local/bin/perennial
# A volume that is mounted here for the first time gets this owner.
COPY --from=build --chown=10001:10001 /out/data /var/lib/perennial
USER 10001:10001
WORKDIR /var/lib/perennial
VOLUME /var/lib/perennial
EXPOSE 8080
STOPSIGNAL SIGTERM
# bash is in the image and can make an HTTP request, so no other tool is installed.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/${PERENNIAL_HEALTH_PORT:-8080} && printf 'GET %s HTTP/1.0\\r\\n\\r\\n' \"${PERENNIAL_HEALTH_PATH:-/readyz}\" >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["perennial"]
# The web UI needs a login; health and metrics do not. To reach them from outside the container,
# use --http 0.0.0.0:8080 and publish the port to an address that only you can reach.
CMD ["run", "--data", "/var/lib/perennial", "--http", "127.0.0.1:8080"]
