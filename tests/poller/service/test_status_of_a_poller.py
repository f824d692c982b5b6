"""What a running poller tells about itself, while it reads and while its control plane is away."""

from prometheus_client.parser import text_string_to_metric_families

from sandgauge_demo.deployment import Route
from sandgauge_schemas import names
from support.direct_session import direct_session
from support.feed import feed, start_span
from support.waiting import wait_until

SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE


def get(url):
    with direct_session() as session:
        return session.get(url, timeout=60)


def control_plane_of(poller):
    answer = get(f"{poller.status_url}/readyz")
    assert answer.status_code == 200, "a control plane is no gate"
    return answer.json()["control_planes"]["training"]


def test_the_page_counts_and_names_no_sandbox(osb, make_poller, otlp_sink):
    sandbox_id = osb.create()
    with make_poller() as poller:
        assert control_plane_of(poller) == {"last_answer": "not_asked"}
        span = start_span(sandbox_id)
        feed(poller.endpoint, span)
        otlp_sink.wait_for(lambda seen: len(seen.spans(SAMPLE)) >= 2)
        page = get(f"{poller.status_url}/metrics").text
        assert control_plane_of(poller)["last_answer"] == "ok"
    values = {
        (s.name, s.labels.get("kind"), s.labels.get("outcome"), s.labels.get("state")): s.value
        for family in text_string_to_metric_families(page)
        for s in family.samples
    }
    assert values["sandgauge_poller_sandboxes", None, None, "active"] == 1
    assert values["sandgauge_poller_reads_total", "sample", "ok", None] >= 2
    assert sandbox_id not in page
    assert otlp_sink.spans(SAMPLE)[0].attributes[names.NEMO_GYM_SANDBOX_ID] == sandbox_id


def test_a_control_plane_in_trouble_is_shown_with_its_error(osb, make_poller):
    sandbox_id = osb.create()
    for route in (Route.INSPECT, Route.GET):
        osb.fault(route, status=500, body="boom")
    with make_poller() as poller:
        feed(poller.endpoint, start_span(sandbox_id))
        wait_until(
            lambda: control_plane_of(poller)["last_answer"] == "http_error", timeout_s=60, what="the error to be shown"
        )
        assert 0 <= control_plane_of(poller)["seconds_ago"] < 60


def row_of(poller, sandbox_id):
    (row,) = get(f"{poller.status_url}/api/v1/sandboxes/{sandbox_id}").json()["sandboxes"]
    return row


def test_what_was_read_of_a_sandbox_is_shown_and_known_again_after_a_restart(osb, make_poller, otlp_sink):
    sandbox_id = osb.create(limits={"cpu": "500m", "memory": "128Mi"})
    with make_poller() as poller:
        feed(poller.endpoint, start_span(sandbox_id))
        otlp_sink.wait_for(lambda seen: len(seen.spans(SAMPLE)) >= 2)
        shown = row_of(poller, sandbox_id)
        assert shown["state"] == "active"
        assert shown["allocation"]["components"][0]["limits"] == {"cpu": 0.5, "memory_mib": 128.0}
        assert shown["reading"]["memory_scope"] == "node"
        assert shown["plot"]["memory_used_mib"][-1] > 0
        overview = get(f"{poller.status_url}/api/v1/overview").json()
        assert overview["sandboxes"]["by_state"]["active"] == 1
        assert sum(point or 0 for point in overview["readings"]["answered"]) >= 2
        osb.fault(Route.EXECD, status=500, body="boom")
        wait_until(
            lambda: row_of(poller, sandbox_id)["reading"].get("error_type") == "http_error",
            timeout_s=60,
            what="a failure with its reason",
        )
        last = row_of(poller, sandbox_id)["reading"]["memory_used_mib"]
        poller.stop()
        poller.start()
        shown = row_of(poller, sandbox_id)
        assert shown["reading"]["memory_used_mib"] == last
        assert "plot" not in shown
