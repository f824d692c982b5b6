#!/bin/sh
# Build a real backend out of its Go module into the cache, once for each version and Go version, for `make e2e-full`.
#   build.sh jaeger|prometheus
# Progress goes to stderr, the folder of the binaries to stdout. SANDGAUGE_CACHE moves the cache (default: _build).
# It takes a quarter of an hour each.
set -eu

jaeger_version=v1.76.0
prometheus_version=v0.313.2 # numbered 3.13.2 as a release

say() { printf 'backends: %s\n' "$*" >&2; }

# What `go install` refuses, since the module's go.mod has exclude or replace lines: build in a writable copy of it.
build_jaeger() {
    module=$(go mod download -json "github.com/jaegertracing/jaeger@$jaeger_version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    cp -r "$module/." "$scratch/source"
    chmod -R u+w "$scratch/source"
    cd "$scratch/source"
    CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$scratch/finished/jaeger" ./cmd/jaeger
}

# In a module of its own that asks for it; without the assets of its web page.
build_prometheus() {
    mkdir "$scratch/source"
    cd "$scratch/source"
    go mod init example.invalid/prometheus
    for program in prometheus promtool; do
        go get -tool "github.com/prometheus/prometheus/cmd/$program@$prometheus_version"
    done
    CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$scratch/finished/" \
        github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool
}

case ${1:-} in
jaeger) version=$jaeger_version ;;
prometheus) version=$prometheus_version ;;
*)
    say 'give one name: jaeger or prometheus'
    exit 2
    ;;
esac
name=$1

if ! command -v go >/dev/null; then
    say 'Go is not on PATH. Install Go (on Debian: apt install golang-go).'
    exit 1
fi

cache=${SANDGAUGE_CACHE:-$(CDPATH='' cd -- "$(dirname -- "$0")/../../.." && pwd)/_build}
mkdir -p "$cache"
build=$(CDPATH='' cd -- "$cache" && pwd)/$name-$version-$(go version | cut -d' ' -f3- | tr -c 'A-Za-z0-9.\n' -)

if [ ! -d "$build" ]; then
    say "building $name $version with Go; this takes a quarter of an hour"
    started=$(date +%s)
    scratch=$(mktemp -d "$cache/building-XXXXXX")
    trap 'chmod -R u+w -- "$scratch"; rm -rf -- "$scratch"' EXIT
    trap 'exit 1' INT TERM
    mkdir "$scratch/finished"
    ("build_$name") >&2
    # A whole folder is renamed, so nobody ever sees half a build; one that finished first is as good as ours.
    mv -T "$scratch/finished" "$build" 2>/dev/null || [ -d "$build" ]
    say "built in $(($(date +%s) - started)) s"
fi

echo "$build"
