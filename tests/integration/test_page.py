"""The page in a real browser: with ten thousand sandboxes, and as one comes and goes."""

import os
import re
from urllib.parse import quote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from sandgauge_schemas import names
from support.browser import REFRESH_MS, opened, running_browser
from support.feed import feed, start_span, stop_span
from support.otlp_sink import OtlpSink
from support.running_poller import RunningPoller
from support.shown_fleet import EVALUATION, ShownFleet
from support.simulated_osb import osb_in_thread

pytestmark = pytest.mark.integration

MANY, FEW = 10_000, 12
TOKEN = "t0ken-of-the-page"
SCRIPT = "<img src=x onerror=alert(1)>"
ODD = 'a b/"<é>%2F?c#d\u202e'
SHOWN_ODD = ODD.replace("\u202e", r"\u202e")

SHOWN = """async () => {
    const shown = () => performance.getEntriesByName("rows-shown")[0]?.startTime;
    while (shown() === undefined) await new Promise(requestAnimationFrame);
    return shown();
}"""
LONGEST_FRAME = """async () => {
    let [longest, last] = [0, performance.now()];
    const end = last + 6000; // a refresh is in it
    while (last < end) {
        const now = await new Promise(requestAnimationFrame);
        [longest, last] = [Math.max(longest, now - last), now];
    }
    return longest;
}"""
SEARCH = """async () => {
    const [text, range] = ["text", "range"].map((id) => document.getElementById(id));
    const changed = new Promise((tell) => new MutationObserver(tell).observe(range, { childList: true }));
    const begun = performance.now();
    text.value = "-4321";
    text.dispatchEvent(new Event("input"));
    await changed;
    return performance.now() - begun;
}"""

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser():
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with ShownFleet(tmp_path_factory.mktemp("fleet"), MANY) as served:
        yield served


@pytest.fixture(scope="module")
def small_fleet(tmp_path_factory):
    with ShownFleet(tmp_path_factory.mktemp("small_fleet"), FEW) as served:
        yield served


@pytest.fixture
def watched(browser, fleet):
    """The page over many sandboxes; it complains of nothing, and asks nobody else."""
    with opened(browser, fleet.url, viewport={"width": 1440, "height": 1000}) as found:
        yield found
        assert found.complaints == []
        assert {urlsplit(url).netloc for url in found.requested} == {urlsplit(fleet.url).netloc}


@pytest.fixture
def one_watched(browser, small_fleet):
    """The same over a few sandboxes, with a clock of its own."""
    with opened(browser, small_fleet.url, has_own_clock=True, viewport={"width": 1440, "height": 1000}) as found:
        yield found
        assert found.complaints == []


def rows(page):
    return page.locator("#rows tr")


def url_of(page, sandbox_id):
    return f"http://{urlsplit(page.url).netloc}/api/v1/sandboxes/{sandbox_id}"


def head(page, name):
    return page.locator("#sandboxes").get_by_role("columnheader", name=name)


def test_ten_thousand_sandboxes_are_there_within_a_second_and_hold_nothing_up(watched):
    page = watched.page
    shown_ms = [page.evaluate(SHOWN)]
    while min(shown_ms) > 1000 and len(shown_ms) < 20:  # whoever runs beside it may hold one up, and not all
        page.reload()
        page.wait_for_selector("#rows tr")
        shown_ms.append(page.evaluate(SHOWN))
    longest_ms = page.evaluate(LONGEST_FRAME)
    filtered_ms = page.evaluate(SEARCH)
    shown = ", ".join(f"{each:.0f}" for each in shown_ms)
    print(f"\n{MANY} sandboxes: the rows are there after {shown} ms, the longest frame took {longest_ms:.0f} ms,")
    print(f"a search {filtered_ms:.0f} ms, of which it waits 150 for more to be typed")
    expect(page.locator("#range")).to_have_text(re.compile("1.1 of 1$"))
    slack = max(2.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))  # others run beside it
    assert min(shown_ms) < 1000
    assert longest_ms < 500 * slack
    assert filtered_ms < 1000 * slack


def test_rows_are_sorted_by_a_column_either_way_with_the_keyboard_too(watched):
    page = watched.page
    first = rows(page).first.locator("button")
    expect(head(page, "Age")).to_have_attribute("aria-sort", "descending")
    oldest = first.inner_text()
    head(page, "Memory used").get_by_role("button").click()
    expect(first).not_to_have_text(oldest)
    expect(head(page, "Memory used")).to_have_attribute("aria-sort", "descending")
    assert not head(page, "Age").get_attribute("aria-sort")
    greediest = first.inner_text()
    head(page, "Sandbox").get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(first).not_to_have_text(greediest)
    expect(head(page, "Sandbox")).to_have_attribute("aria-sort", "ascending")
    lowest = first.inner_text()
    page.keyboard.press("Enter")
    expect(first).not_to_have_text(lowest)
    expect(head(page, "Sandbox")).to_have_attribute("aria-sort", "descending")
    expect(page.locator("#announcement")).to_have_text("Found 10,000 sandboxes.")


def test_rows_are_searched_and_filtered_and_the_address_keeps_it(watched):
    page = watched.page
    page.get_by_label("Search sandbox").fill("12-3")
    expect(rows(page).filter(has_not_text="12-3")).to_have_count(0)
    page.get_by_label("Search sandbox").fill("")
    page.get_by_label("Show", exact=True).select_option("leaked")
    expect(rows(page).filter(has_not_text="leaked")).to_have_count(0)
    page.get_by_label("Deployment", exact=True).select_option(EVALUATION)
    expect(rows(page).filter(has_not_text=EVALUATION)).to_have_count(0)
    expect(page).to_have_url(re.compile(f"show=leaked&deployment={EVALUATION}"))
    page.reload()
    expect(rows(page).first).to_contain_text(EVALUATION)
    expect(page.get_by_label("Show", exact=True)).to_have_value("leaked")
    expect(page.get_by_label("Deployment", exact=True)).to_have_value(EVALUATION)
    page.get_by_label("Search sandbox").fill("there is no such thing")
    expect(page.locator("#empty")).to_have_text("No sandbox matches.")


def test_there_are_pages(watched):
    page = watched.page
    expect(page.locator("#range")).to_have_text(re.compile("1.100 of 10,000"))
    expect(page.get_by_role("button", name="Previous")).to_be_disabled()
    first = rows(page).first.inner_text()
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#range")).to_have_text(re.compile("101.200 of 10,000"))
    assert rows(page).first.inner_text() != first
    page.goto(f"{page.url.split('?')[0]}?page=500")  # as a fleet that became smaller leaves it
    expect(page.locator("#range")).to_have_text(re.compile("9,901.10,000 of 10,000"))
    expect(page.get_by_role("button", name="Next")).to_be_disabled()


def test_leaks_stand_above_the_table_and_lead_to_their_sandbox(one_watched):
    page = one_watched.page
    expect(page.get_by_role("heading", name="1 leaked sandbox")).to_be_visible()
    leaked = page.locator("#leaks-list a").first
    leaked.click()
    sheet = page.get_by_role("dialog")
    expect(sheet.get_by_role("heading", level=2)).to_have_text(leaked.inner_text())
    expect(sheet).to_contain_text("leaked")


def test_a_sandbox_is_shown_with_its_hour_and_all_four_quantities(one_watched):
    page = one_watched.page
    page.get_by_label("Show", exact=True).select_option("active")
    expect(page.locator("#sandboxes-title")).to_contain_text(f"of {FEW}")
    chosen = rows(page).filter(has_text="cores").first.locator("button")
    chosen.click()
    sheet = page.get_by_role("dialog")
    expect(sheet.get_by_role("img")).to_have_count(4)
    for plot in sheet.get_by_role("img").all():
        assert "over the last hour" in plot.get_attribute("aria-label")
    for text in ("Requested", "Submitted, limits", "Allocated, limits", "kubernetes.metrics", "opensandbox.execd"):
        expect(sheet).to_contain_text(text)
    sheet.get_by_text("As a table").first.click()
    expect(sheet.get_by_role("region").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    expect(chosen).to_be_focused()


def test_an_id_of_whatever_text_leads_to_its_sandbox(one_watched):
    page = one_watched.page
    known = rows(page).first.locator("button").inner_text()

    def rename(route):
        answer = route.fetch()
        found = answer.json()
        found["sandboxes"][0]["sandbox_id"] = ODD
        route.fulfill(response=answer, json=found)

    of_it = f"/api/v1/sandboxes/{quote(ODD, safe='')}"
    page.route(lambda url: "/api/v1/sandboxes?" in url, rename)
    page.route(
        lambda url: url.endswith(of_it), lambda route: route.fulfill(response=route.fetch(url=url_of(page, known)))
    )
    page.get_by_label("Show", exact=True).select_option("active")
    rows(page).filter(has_text=SHOWN_ODD).locator("button").click()
    sheet = page.get_by_role("dialog")
    expect(sheet).to_contain_text(SHOWN_ODD)
    expect(sheet).to_contain_text("Rollout")
    page.unroute_all(behavior="wait")


@pytest.mark.parametrize("written", [".", ".."])
def test_an_id_that_nobody_has_is_said(browser, small_fleet, written):
    with opened(browser, f"{small_fleet.url}/#/{written}") as watched:
        expect(watched.page.get_by_role("dialog")).to_contain_text("No sandbox of that id is followed")
        expect(rows(watched.page)).to_have_count(FEW)


def test_updates_can_be_paused(one_watched):
    page = one_watched.page
    pause = page.get_by_role("button", name="Pause updates")
    pause.click()
    expect(page.locator("#connection-text")).to_have_text("Paused")
    asked = len(one_watched.requested)
    page.clock.fast_forward(20 * REFRESH_MS)
    expect(pause).to_have_attribute("aria-pressed", "true")
    assert len(one_watched.requested) == asked
    pause.click()
    with page.expect_request("**/api/v1/overview"):
        page.clock.fast_forward(REFRESH_MS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anybody_out(browser, small_fleet, scheme):
    with opened(browser, small_fleet.url, viewport={"width": 1440, "height": 900}, color_scheme=scheme) as watched:
        page = watched.page
        assert grave(page) == []
        page.locator("#leaks-list a").first.click()
        expect(page.get_by_role("dialog").get_by_role("img").first).to_be_visible()
        assert grave(page) == []
        page.set_viewport_size({"width": 390, "height": 900})
        assert grave(page) == []
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


def grave(page):
    found = Axe().run(page).response["violations"]
    return [
        (violation["id"], node["html"], node.get("failureSummary"))
        for violation in found
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def test_a_poller_that_falls_silent_is_said_and_what_was_known_stays(browser, fleet):
    with opened(browser, fleet.url, has_own_clock=True) as watched:
        page = watched.page
        page.route("**/api/**", lambda route: route.abort())
        watched.see(expect(page.locator("#connection-text")).to_contain_text, "No answer for")
        expect(page.locator("#announcement")).to_have_text("The poller gives no answer.")
        expect(rows(page)).to_have_count(100)
        page.unroute("**/api/**")
        watched.see(expect(page.locator("#connection-text")).to_have_text, "Live")


def test_the_token_is_asked_for_once_and_opens_page_and_data(browser, tmp_path):
    with ShownFleet(tmp_path, 3, token=TOKEN) as fleet:
        credentials = {"username": "anyone", "password": TOKEN}
        with opened(browser, fleet.url, http_credentials=credentials) as watched:
            expect(rows(watched.page)).to_have_count(3)


def test_a_row_appears_changes_and_goes_with_its_sandbox_and_text_of_spans_is_text(browser, tmp_path):
    with osb_in_thread() as osb, OtlpSink() as sink:
        config = {
            "deployments": [{"name": "training", "endpoint": osb.url}],
            "sampling": {"collection_interval": "2s"},
            "tracking": {"orphan_grace": "8s"},
            "export": {"endpoint": sink.endpoint},
        }
        with (
            RunningPoller(tmp_path, config) as poller,
            opened(browser, poller.status_url, has_own_clock=True) as watched,
        ):
            page = watched.page
            expect(page.locator("#empty")).to_contain_text("No sandbox yet")
            sandbox_id = osb.create(limits={"cpu": "500m", "memory": "128Mi"})
            feed(poller.endpoint, start_span(sandbox_id, attributes={names.NEMO_GYM_ROLLOUT_ID: f"\u202e{SCRIPT}"}))
            row = rows(page).filter(has_text=sandbox_id)
            for text in ("active", rf"\u202e{SCRIPT}", "0.5 CPU · 128 MiB", "node"):
                watched.see(expect(row).to_contain_text, text)
            assert page.locator("#rows img").count() == 0
            age = row.locator("td.age")
            watched.see(expect(age).not_to_have_text, age.inner_text())
            osb.delete(sandbox_id)
            feed(poller.endpoint, stop_span(sandbox_id))
            watched.see(expect(row).to_contain_text, "stopped")
            watched.see(expect(rows(page)).to_have_count, 0)
            assert watched.complaints == []
