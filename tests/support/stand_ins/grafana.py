"""A stand-in for Grafana: reads all that is provisioned as Grafana would find it, and ends where it cannot.

It knows where things stand and what is needed to find them, not what Grafana makes of them.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

PROVISIONING = Path("/etc/grafana/provisioning")
DATA = Path("/var/lib/grafana")
VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


def provisioned(kind: str) -> list[dict[str, Any]]:
    """Read every file of a kind; variables of the environment stand for their values."""
    found = []
    for path in sorted((PROVISIONING / kind).glob("*.y*ml")):
        text = VARIABLE.sub(lambda match: os.environ.get(match[1] or match[2], ""), path.read_text())
        content = yaml.safe_load(text)
        if content.get("apiVersion") != 1:
            raise ValueError(f"{path}: apiVersion is not 1")
        found.append(content)
    if not found:
        raise ValueError(f"{PROVISIONING / kind} holds nothing")
    return found


def datasources() -> list[dict[str, Any]]:
    """Return the data sources by their uid; each needs a name, a type and an address."""
    sources = [source for content in provisioned("datasources") for source in content["datasources"]]
    for source in sources:
        if not all(source.get(key) for key in ("name", "type", "uid", "url")):
            raise ValueError(f"data source {source.get('name')}: name, type, uid and url are needed")
    return sources


def dashboards() -> list[dict[str, Any]]:
    """Return every dashboard of every provider."""
    found = []
    for content in provisioned("dashboards"):
        for provider in content["providers"]:
            paths = sorted(Path(provider["options"]["path"]).rglob("*.json"))
            if not paths:
                raise ValueError(f"provider {provider['name']}: no dashboard in {provider['options']['path']}")
            found += [json.loads(path.read_text()) for path in paths]
    uids = [dashboard["uid"] for dashboard in found]
    if len(set(uids)) < len(uids):
        raise ValueError(f"a uid stands twice: {uids}")
    return found


async def health(_request: web.Request) -> web.Response:
    return web.json_response({"database": "ok"})


if __name__ == "__main__":
    (DATA / "grafana.db").touch()
    for kind, things in (("datasources", datasources()), ("dashboards", dashboards())):
        names = [thing.get("title") or thing["name"] for thing in things]
        print(f"{kind}: {', '.join(names)}", flush=True)
    application = web.Application()
    application.add_routes([web.get("/api/health", health)])
    web.run_app(application, port=3000, access_log=None)
