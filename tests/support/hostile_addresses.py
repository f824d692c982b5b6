"""A hundred ways to make a program call what it should not: invented and well-known forms, none of them configured."""

_METADATA = "169.254.169.254"

_HOSTS = (
    _METADATA,
    "0251.0376.0251.0376",  # octal
    "0xa9.0xfe.0xa9.0xfe",
    "0xa9fea9fe",
    "2852039166",  # one decimal number
    "169.254.43518",  # two parts in one
    "169.16689662",
    "169.254.169.254.",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[::169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]",
    "[fd00:ec2::254]",
    "[fe80::1%25lo]",
    "[::1]",
    "[::]",
    "0.0.0.0",
    "0",
    "127.0.0.1",
    "127.1",
    "0177.0.0.1",
    "2130706433",
    "127.0.0.7",
    "localhost",
    "localhost.localdomain",
    "metadata.google.internal",
    "metadata",
    "169.254.169.254.nip.io",
    "instance-data.ec2.internal",
    "kubernetes.default.svc",
    "host.docker.internal",
    "evil.invalid",
    "10.1.2.3.evil.invalid",
    "10.1.2.30",
    "10.1.2.4",
    "192.168.0.1",
    "172.17.0.1",
    "100.100.100.200",
    "ｅｖｉｌ.invalid",  # noqa: RUF001 - full-width letters
    "xn--eil-4ra.invalid",
    "еvil.invalid",  # noqa: RUF001 - a Cyrillic letter
    "169。254。169。254",
    "①⑥⑨.②⑤④.①⑥⑨.②⑤④",
)
_PORTS = ("", ":22", ":80", ":6379", ":44772")

IN_AN_ENDPOINT = (
    *(f"{host}{_PORTS[number % len(_PORTS)]}" for number, host in enumerate(_HOSTS)),
    *(f"{host}:44772/proxy/44772" for host in _HOSTS[:16]),
    f"http://{_METADATA}/latest/meta-data",
    f"https://{_METADATA}",
    f"//{_METADATA}/",
    f"10.1.2.3@{_METADATA}:80",
    f"10.1.2.3:80@{_METADATA}",
    f"user:password@{_METADATA}",
    f"{_METADATA}#@10.1.2.3",
    f"{_METADATA}?10.1.2.3",
    f"{_METADATA}\\@10.1.2.3",
    "10.1.2.3:99999",
    "10.1.2.3:-1",
    "10.1.2.3:80:80",
    "10.1.2.3/../../admin",
    "10.1.2.3/%2e%2e/admin",
    "10.1.2.3/a?b=c",
    "10.1.2.3/a#b",
    "10.1.2.3\r\nHost: 169.254.169.254",
    "10.1.2.3/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n",
    "10.1.2.3\x00.evil.invalid",
    " 169.254.169.254",
    "file:///etc/passwd",
    "unix:/var/run/docker.sock",
    "gopher://127.0.0.1:6379/_INFO",
    "",
    "/",
    ".",
    "..",
    "a" * 3000,
)
"""What a control plane may name as an endpoint."""

ADDRESSES = tuple(
    dict.fromkeys(
        [
            *(f"http://{host}{_PORTS[number % len(_PORTS)]}/v1" for number, host in enumerate(_HOSTS)),
            *IN_AN_ENDPOINT[: 100 - len(_HOSTS) - 28],
            *IN_AN_ENDPOINT[-28:],
        ]
    )
)
"""At least a hundred, for attributes and redirects."""
