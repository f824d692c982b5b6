#!/bin/sh
# Build the Collector of builder.yaml into a cache, once for each builder.yaml and Go version.
# Progress goes to stderr, the path of the binary to stdout. SANDGAUGE_CACHE moves the cache (default: _build).
set -eu

builder_version=v0.161.0
binary=otelcol-sandgauge

folder=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
manifest=$folder/builder.yaml
cache=${SANDGAUGE_CACHE:-$folder/../_build}

say() { printf 'collector: %s\n' "$*" >&2; }

if ! command -v go >/dev/null; then
    say 'Go is not on PATH. Install Go (on Debian: apt install golang-go), or let SANDGAUGE_OTELCOL name a Collector'
    say 'that has the parts of collector-config/builder.yaml; the contrib distribution has them all.'
    exit 1
fi

mkdir -p "$cache"
cache=$(CDPATH='' cd -- "$cache" && pwd)
manifest_key=$(sha256sum "$manifest" | cut -c1-16)
go_key=$(go version | cut -d' ' -f3- | tr -c 'A-Za-z0-9.\n' -)
build=$cache/collector-$manifest_key-$go_key

if [ ! -x "$build/$binary" ]; then
    say 'building with Go; the first time this downloads modules and takes some minutes'
    started=$(date +%s)
    scratch=$(mktemp -d "$cache/building-XXXXXX")
    trap 'rm -rf -- "$scratch"' EXIT
    trap 'exit 1' INT TERM
    (cd "$scratch" && go run "go.opentelemetry.io/collector/cmd/builder@$builder_version" --config="$manifest") >&2
    mkdir "$scratch/finished"
    mv "$scratch/distribution/$binary" "$scratch/finished/$binary"
    # A whole folder is renamed, so nobody ever sees half a build; one that finished first is as good as ours.
    mv -T "$scratch/finished" "$build" 2>/dev/null || [ -x "$build/$binary" ]
    say "built in $(($(date +%s) - started)) s"
fi

ln -sfn "$(basename "$build")/$binary" "$cache/$binary"
echo "$build/$binary"
