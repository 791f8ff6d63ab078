package page_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/report/page"
	"github.com/fiador/fiador/kernel/grade"
)

// saved writes a page and the files of its links, and returns the file of the page.
func saved(t *testing.T, r page.Report) string {
	t.Helper()
	dir := t.TempDir()
	const runs = `<!DOCTYPE html><html><body><script>globalThis.canary=1</script><h1>ran</h1></body></html>`
	for name, content := range map[string]string{"report.html": write(t, r), "new/2026-11-26-r01/assets/77aa.txt": runs, "new/2026-11-26-r01/assets/88.bin": runs} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "report.html")
}

// hostile is a page with everything that an agent can say, in one case after the other.
func hostile() page.Report {
	r := realistic()
	for i, s := range append(hard(), strings.Repeat("w", 100_000), "", "Bearer [redacted:bearer]", strings.Repeat("\x00", 5000)) {
		h := said(s)
		for _, c := range h.Cases[len(h.Cases)-2:] {
			d := h.Details[c.CaseID]
			c.CaseID = fmt.Sprintf("said-%02d-%s", i, c.CaseID)
			r.Cases = append(r.Cases, c)
			r.Details[c.CaseID] = d
		}
		r.ChangedProvenance = append(r.ChangedProvenance, h.ChangedProvenance...)
	}
	d := r.Details["parcel-lost"]
	d.Alignment = many(2490, grade.Different)
	r.Details["parcel-lost"] = d
	return r
}

// The page in the browser: what is wrong with it, a line for each fault.
const faults = `(() => {
const out = [], seen = e => e.checkVisibility({visibilityProperty: true});
const wide = document.documentElement.scrollWidth, room = document.documentElement.clientWidth;
if (wide > room) out.push("the page is " + wide + " wide and has " + room);
const tags = new Set("HTML HEAD META TITLE STYLE BODY HEADER MAIN FOOTER SECTION DIV FIELDSET LEGEND LABEL INPUT DETAILS SUMMARY H1 H2 H3 P UL OL LI DL DT DD SPAN B I CODE PRE MARK A".split(" "));
for (const e of document.querySelectorAll("*")) {
  if (!tags.has(e.tagName)) out.push("foreign " + e.tagName);
  for (const a of e.attributes) if (a.name.startsWith("on") || a.name == "style" || a.name == "src") out.push("foreign " + a.name);
  if (!seen(e)) continue;
  const r = e.getBoundingClientRect();
  if (r.right > room + 0.5 || r.left < -0.5) out.push(e.tagName + "." + e.className + " reaches from " + r.left + " to " + r.right);
  if (e.scrollWidth > e.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(e).overflowX)) out.push(e.tagName + " scrolls sideways");
}
if (globalThis.canary !== undefined) out.push("a script of an agent ran");
const rgb = s => s.match(/[\d.]+/g).map(Number), light = c => {
  const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), worst = {};
let n = 0;
while (walk.nextNode()) {
  const e = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !seen(e)) continue;
  let g = e, back = [0, 0, 0, 0];
  for (; g && (back = rgb(getComputedStyle(g).backgroundColor)).length == 4 && back[3] == 0; g = g.parentElement);
  if (!g) back = [255, 255, 255];
  const a = light(rgb(getComputedStyle(e).color)), b = light(back), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  n++;
  if (ratio < 4.5) worst[e.tagName + "." + e.className + " in " + e.parentElement.className] = ratio.toFixed(2);
}
for (const k in worst) out.push("contrast " + worst[k] + " of " + k);
if (n < 100) out.push("only " + n + " texts are seen");
return out.slice(0, 20);
})()`

// TestChromium: a real browser shows the page whole, asks for nothing and runs nothing, whatever
// agents said, in both widths, both colours and on paper, with scripts allowed or not.
func TestChromium(t *testing.T) {
	b := chromium(t)
	for name, r := range map[string]page.Report{"realistic": realistic(), "hostile": hostile()} {
		file := "file://" + saved(t, r)
		for _, scripts := range []string{"on", "off"} {
			for _, width := range []int{1400, 400} {
				for _, colours := range []string{"light", "dark"} {
					for _, medium := range []string{"screen", "print"} {
						t.Run(fmt.Sprintf("%s/scripts-%s/%d/%s/%s", name, scripts, width, colours, medium), func(t *testing.T) {
							b.t = t
							b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": scripts == "off"}, nil)
							b.look(width, colours == "dark", medium)
							b.asked = nil
							b.open(file)
							if !slices.Equal(b.asked, []string{file}) {
								t.Errorf("the page asks for %q", b.asked)
							}
							b.holds(len(r.Cases), width == 1400, medium == "print")
						})
					}
				}
			}
		}
	}
}

// holds checks what the page shows.
func (b *browser) holds(cases int, wide, print bool) {
	b.t.Helper()
	var found []string
	if b.evaluate(faults, &found); len(found) > 0 {
		b.t.Errorf("faults:\n\t%s", strings.Join(found, "\n\t"))
	}
	var hidden, lines, high int
	b.evaluate(`[...document.querySelectorAll(".in, .sub pre")].filter(e => !e.checkVisibility()).length`, &hidden)
	if (hidden == 0) != print {
		b.t.Errorf("%d cases and folds are closed", hidden)
	}
	var title string
	if b.evaluate("document.title", &title); title != "✗ REJECTED – Fiador comparison" {
		b.t.Errorf("the title is %q", title)
	}
	b.evaluate(`document.querySelectorAll(".case").length`, &lines)
	b.evaluate(`[...document.querySelectorAll(".case > summary")].filter(e => e.checkVisibility() && e.getBoundingClientRect().height != 32).length`, &high)
	if lines != cases || wide && high > 0 {
		b.t.Errorf("%d cases, of which %d are not 32 pixels high", lines, high)
	}
}

// click clicks at the middle of an element with a real mouse.
func (b *browser) click(selector string) {
	b.t.Helper()
	var at []float64
	b.evaluate(`(() => { const e = document.querySelector('`+selector+`'); e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()`, &at)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}, nil)
	}
}

func (b *browser) press(key string, code int) {
	b.t.Helper()
	text := map[string]string{"Enter": "\r"}[key]
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
}

// TestChromiumHands: chips, links, folds and files do what they say, by mouse and by keyboard,
// without scripts.
func TestChromiumHands(t *testing.T) {
	b := chromium(t)
	r := realistic()
	fresh := r.Details["refund-over-limit"].New
	fresh.Bodies = append(fresh.Bodies, page.Body{Label: "bytes", Href: "new/2026-11-26-r01/assets/88.bin", Name: "assets/88.bin", Size: 1 << 20})
	file := "file://" + saved(t, r)
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.look(1400, false, "screen")
	b.open(file)
	const shown = `[...document.querySelectorAll(".case")].filter(e => e.checkVisibility()).map(e => e.querySelector("summary code").textContent)`
	for _, chip := range []struct {
		id   string
		want int
	}{{"all", 32}, {"worse", 4}, {"flaky", 2}, {"better", 1}, {"look", 8}} {
		b.click("#show-" + chip.id)
		var ids []string
		var says string
		b.evaluate(shown, &ids)
		b.evaluate(`document.querySelector("#show-`+chip.id+` + span b").textContent`, &says)
		if len(ids) != chip.want || says != fmt.Sprint(chip.want) {
			t.Errorf("chip %s says %s and shows %q, want %d", chip.id, says, ids, chip.want)
		}
	}
	if b.press("ArrowRight", 39); true {
		var on string
		if b.evaluate(`document.querySelector("input:checked").id`, &on); on != "show-worse" {
			t.Errorf("the right arrow leads to %s", on)
		}
	}
	b.click("#show-better")
	for _, id := range []string{"refund-over-limit", "chat-in-polish", "parcel-lost"} {
		b.evaluate(`document.getElementById("case-`+id+`").closest("details").open = false`, nil)
		b.click(`.reasons a[href="#case-` + id + `"]`)
		var is []bool
		b.evaluate(`(() => { const e = document.getElementById("case-`+id+`"), d = e.closest("details"), y = d.getBoundingClientRect().top; return [d.open, e.checkVisibility(), y > -50 && y < innerHeight] })()`, &is)
		if slices.Contains(is, false) {
			t.Errorf("the link to %s: open, visible, in sight are %v", id, is)
		}
	}
	b.evaluate(`document.querySelector(".case:has(:target) > summary").focus()`, nil)
	var before, after bool
	b.evaluate(`document.querySelector(".case:has(:target)").open`, &before)
	b.press("Enter", 13)
	if b.evaluate(`document.querySelector(".case:has(:target)").open`, &after); before == after {
		t.Error("Enter does not open and close a case")
	}
	var links []string
	b.evaluate(`[...document.links].filter(a => !a.getAttribute("href").startsWith("#")).map(a => a.href)`, &links)
	dir := strings.TrimSuffix(file, "report.html")
	if want := []string{dir + "new/2026-11-26-r01/assets/77aa.txt", dir + "new/2026-11-26-r01/assets/88.bin"}; !slices.Equal(links, want) {
		t.Fatalf("the page links to %q", links)
	}
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": false}, nil)
	for i, link := range links {
		if i == 0 {
			b.open(link)
		} else { // it is saved, and not shown
			b.call("Page.navigate", map[string]any{"url": link}, nil)
		}
		var ran bool
		var text string
		if b.evaluate(`globalThis.canary !== undefined || document.querySelector("h1") !== null && document.contentType != "text/html"`, &ran); ran {
			t.Errorf("the browser runs %s", link)
		}
		if b.evaluate(`document.contentType + " " + document.body.innerText`, &text); i == 0 && !strings.HasPrefix(text, "text/plain <!DOCTYPE html>") {
			t.Errorf("%s is shown as %s", link, text)
		}
	}
}

// TestPictures takes pictures for a person, where FIADOR_PICTURES names a folder.
func TestPictures(t *testing.T) {
	dir := os.Getenv("FIADOR_PICTURES")
	if dir == "" {
		t.Skip("FIADOR_PICTURES names no folder for the pictures")
	}
	b := chromium(t)
	file := "file://" + saved(t, realistic())
	for _, width := range []int{1400, 400} {
		for _, dark := range []bool{false, true} {
			b.look(width, dark, "screen")
			b.open(file)
			name := fmt.Sprintf("%s/%d-%s", dir, width, map[bool]string{true: "dark", false: "light"}[dark])
			b.shoot(name+"-first.png", width, 0, 900)
			var height int
			b.evaluate("document.documentElement.scrollHeight", &height)
			for y := 900; y < min(height, 3600); y += 900 {
				b.shoot(fmt.Sprintf("%s-%d.png", name, y), width, y, 900)
			}
		}
	}
}
