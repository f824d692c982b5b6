"""A state folder whose file is damaged: the poller says so, keeps the file, and does its work, start after start."""

from sandgauge_schemas import names
from support.delivered import ids_in
from support.feed import feed, start_span

SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE


def test_the_poller_works_on_and_says_it_once(osb, make_poller, otlp_sink, tmp_path):
    known, new = osb.create(), osb.create()
    poller = make_poller()
    with poller:
        feed(poller.endpoint, start_span(known))
        otlp_sink.wait_for(lambda sink: known in ids_in(sink, SAMPLE))
    file = tmp_path / "state" / "sandgauge.db"
    noise = b"\0" * 4096 + file.read_bytes()[4096:]
    file.write_bytes(noise)
    for _ in range(3):
        # As something does that restarts it whenever it ends.
        poller.start()
        poller.kill()
    with poller:
        feed(poller.endpoint, start_span(new))
        otlp_sink.wait_for(lambda sink: new in ids_in(sink, SAMPLE))
    (line,) = poller.complaints()
    assert f"{file}: damaged" in line
    assert "kept as sandgauge.db.damaged-1" in line
    poller.log_file.write_text("")
    assert sorted(found.name for found in file.parent.glob("*damaged*")) == ["sandgauge.db.damaged-1"]
    assert (file.parent / "sandgauge.db.damaged-1").read_bytes() == noise
