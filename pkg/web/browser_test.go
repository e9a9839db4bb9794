package web

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// chromium is Debian's browser without a window. It is skipped only for who may not install it.
func chromium(t testing.TB) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		path, err = exec.LookPath("chromium")
	}
	if err != nil && os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("no browser on this machine (Debian package chromium-headless-shell)")
	} else if err != nil {
		t.Fatal("no browser on this machine (Debian package chromium-headless-shell)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1240, 900))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	return browser
}

// tab is a page that is open. What it must not do is in faults.
type tab struct {
	ctx    context.Context
	t      testing.TB
	origin string
	close  context.CancelFunc
	mu     sync.Mutex
	faults []string
}

// shopTab is a tab with the page of the cluster in testdata/shop.txtar.
func shopTab(t *testing.T) *tab {
	t.Helper()
	_, facts := fixture(t, "shop", time.Now())
	return newTab(chromium(t), t, serve(t, constant(facts)).URL)
}

// newTab opens a tab in which each error of the console, request to another origin and breach of the policy counts.
func newTab(browser context.Context, t testing.TB, origin string) *tab {
	t.Helper()
	ctx, done := chromedp.NewContext(browser)
	t.Cleanup(done)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	p := &tab{ctx: ctx, t: t, origin: origin, close: done}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.fault("exception: " + e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
				p.fault(fmt.Sprintf("console: %s", e.Args[0].Value))
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError {
				p.fault("log: " + e.Entry.Text + " " + e.Entry.URL)
			}
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, origin) {
				p.fault("request to " + e.Request.URL)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	command(p, log.Enable, cdp.Empty{})
	command(p, network.Enable, network.EnableParams{})
	command(p, runtime.Enable, cdp.Empty{})
	return p
}

func (p *tab) fault(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, text)
}

// clean fails the test for what the page must not do.
func (p *tab) clean() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fault := range p.faults {
		p.t.Error(fault)
	}
}

func command[P, R any](p *tab, c cdp.Command[P, R], parameters P) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, c, parameters); err != nil {
		p.t.Fatal(err)
	}
}

// emulate sets a feature of CSS media.
func (p *tab) emulate(feature, value string) {
	p.t.Helper()
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: feature, Value: value}}})
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatalf("%v; faults: %v", err, p.faults)
	}
}

func (p *tab) open(hash string) {
	p.t.Helper()
	p.run(chromedp.Navigate(p.origin + "/" + hash))
}

// shows waits for a text.
func (p *tab) shows(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// until waits for a condition of JavaScript.
func (p *tab) until(condition string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool]("Boolean("+condition+")", chromedp.WithPollingTimeout(30*time.Second))); err != nil {
		p.t.Fatalf("waiting for %s: %v; faults: %v; text: %s", condition, err, p.faults, eval[string](p, "document.body.innerText"))
	}
}

func eval[T any](p *tab, script string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", script, err)
	}
	return value
}

func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// nameless gives the elements that a reader of the screen cannot name.
const nameless = `[...document.querySelectorAll("a,button,input,select,summary,table,[role=img],[role=group],[tabindex='0']")].filter((e) =>
  !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length)).map((e) => e.outerHTML.slice(0, 120))`

// TestBrowser_ShowsEachView: with its words, its drawing, a command, an age and names for all that can have the focus.
func TestBrowser_ShowsEachView(t *testing.T) {
	browser := chromium(t)
	_, facts := fixture(t, "shop", time.Now().Add(-3*time.Second))
	server := serve(t, constant(facts))
	for _, view := range []struct{ hash, title, text, command, picture string }{
		{"#/overview", "Overview", "container runtime network not ready", "kubectl offload status", "overview"},
		{"#/node/worker-1", "Node worker-1", "ens1f0np0", "kubectl offload explain node/worker-1", "node"},
		{"#/node/worker-2", "Node worker-2", "DPU, ready", "kubectl offload explain node/worker-2", "dpu"},
		{"#/node/worker-4", "Node worker-4", "1 pod on veths", "kubectl offload explain node/worker-4", ""},
		{"#/pod/shop/web-0", "Pod shop/web-0", "hash(l4)", "kubectl offload explain pod/web-0 -n shop", "pod"},
		{"#/pod/shop/alone", "Pod shop/alone", "on a veth", "kubectl offload explain pod/alone -n shop", ""},
		{"#/worst", "Pods", "shop/web-0", "kubectl offload explain --worst 200", ""},
		{"#/path?from=pod/shop/web-0&to=svc/shop/db:5432/tcp", "Path", "ALLOWED", "kubectl offload trace pod/shop/web-0 svc/shop/db:5432/tcp --live", "path"},
		{"#/path?from=pod/shop/web-0&to=svc/shop/db:5432/tcp", "Path", "pf0vf1 chain 18 pref 3 handle 0x1a", "kubectl offload trace pod/shop/web-0 svc/shop/db:5432/tcp --live", ""},
		{"#/path?from=node/worker-1&to=svc/shop/db:5432/tcp", "Path", "ALLOWED", "kubectl offload trace node/worker-1 svc/shop/db:5432/tcp --live", ""},
		{"#/path?from=pod/shop/web-0&to=svc/shop/db:9/tcp", "Path", "No flow forwards such packets now. This path is computed", "kubectl offload trace pod/shop/web-0 svc/shop/db:9/tcp", ""},
		{"#/path?from=pod/shop/web-0&to=pod/shop/db-1:22/tcp", "Path", "NetworkPolicy/shop/deny", "kubectl offload trace pod/shop/web-0 pod/shop/db-1:22/tcp --live", "path-dropped"},
		{"#/flows?pod=shop/web-0", "Flows", "NetworkPolicy/shop/deny", "kubectl offload flows --pod web-0 -n shop", "flows"},
		{"#/flows?namespace=shop&verdict=dropped&policy=deny", "Flows", "1 of 1 streams that the filter chooses, of 8", "kubectl offload flows -n shop --verdict dropped --policy deny", "flows-filtered"},
		{"#/traffic", "Traffic", "68110", "kubectl offload top --by pod", "traffic"},
		{"#/map?namespaces=shop", "Map", "netpol/shop/deny", "kubectl offload flows -n shop", "map"},
		{"#/policies?namespaces=shop", "Policies", "matched nothing", "kubectl offload flows -n shop", "policies"},
		{"#/policies?namespaces=shop,quiet", "Policies", "which policies decide", "kubectl offload flows", ""},
		{"#/map?namespaces=quiet", "Map", "the agent of a node does not answer", "kubectl offload flows -n quiet", ""},
		{"#/health", "Health", "master-0-abc", "kubectl offload status", "health"},
	} {
		p := newTab(browser, t, server.URL)
		p.open(view.hash)
		p.until(`document.querySelector("#command")`)
		text, command, age, title := p.text("main")+p.text("#foot"), p.text("#command"), p.text("#age"), eval[string](p, "document.title")
		inDrawing := eval[string](p, `[...document.querySelectorAll("svg text, svg title")].map((e) => e.textContent).join("\n")`)
		if !strings.Contains(strings.ToUpper(text+inDrawing), strings.ToUpper(view.text)) || command != view.command || !strings.HasPrefix(age, "read ") || !strings.Contains(title, strings.TrimPrefix(strings.TrimPrefix(view.title, "Node "), "Pod ")) {
			t.Errorf("%s: title %q, command %q, %q, text\n%s", view.hash, title, command, age, text)
		}
		if without := eval[[]string](p, nameless); len(without) > 0 {
			t.Errorf("%s: no accessible name: %s", view.hash, without)
		}
		p.clean()
		p.picture(view.picture)
		p.close()
	}
}

// picture writes a picture for the documentation with -update, light and dark.
func (p *tab) picture(name string) {
	p.t.Helper()
	if !*update || name == "" {
		return
	}
	for suffix, scheme := range map[string]string{"": "light", "-dark": "dark"} {
		if suffix != "" && name != "overview" && name != "node" && name != "map" {
			continue
		}
		p.emulate("prefers-color-scheme", scheme)
		png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
		if err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("../../docs/pictures", name+suffix+".png"), png, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

// TestBrowser_GoesByKeysAndBack: a link, the back button, the arrow keys and the field of names.
func TestBrowser_GoesByKeysAndBack(t *testing.T) {
	p := shopTab(t)
	p.open("")
	p.run(chromedp.Focus(chromedp.CSS("a.square")), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.Enter))
	p.shows("Node worker-2")
	p.run(chromedp.NavigateBack())
	p.shows("Overview")
	p.run(chromedp.SendKeys(chromedp.CSS("#name"), "shop/web-0"+kb.Enter))
	p.shows("Pod shop/web-0")
	p.run(chromedp.Click(chromedp.CSS(`a[href^="#/path"][href*="from"]`)), chromedp.SendKeys(chromedp.CSS("input[name=to]"), "svc/shop/db:5432/tcp"+kb.Enter))
	p.shows("load balancer: to")
	for _, view := range []string{"map", "policies"} {
		p.run(chromedp.Click(chromedp.CSS(`nav a[href="#/` + view + `"]`)))
		p.until(`document.querySelector("main h1")?.textContent.toLowerCase() === "` + view + `" && !document.querySelector("main table")`)
		p.run(chromedp.SendKeys(chromedp.CSS("input[name=namespaces]"), "shop, bank"+kb.Enter))
		p.until(`location.hash === "#/` + view + `?namespaces=shop,bank" && document.querySelector("#command") && document.querySelector("input[name=namespaces]").value === "shop, bank"`)
	}
	p.run(chromedp.Click(chromedp.CSS(`nav a[href="#/health"]`)), chromedp.WaitVisible(chromedp.CSS(`a[href="#/help/control-plane-down"]`)), chromedp.Click(chromedp.CSS(`a[href="#/help/control-plane-down"]`)), chromedp.WaitVisible(chromedp.CSS("main pre")))
	p.clean()
}

// TestBrowser_PodSaysWhatToChange for each stream outside hardware, and has the pod's Events. A pod without flows has neither.
func TestBrowser_PodSaysWhatToChange(t *testing.T) {
	p := shopTab(t)
	p.open("#/pod/shop/web-0")
	p.shows("FlowsCaptured")
	const steps = `[...document.querySelectorAll("[data-testid=advice] li")].map((e) => e.innerText)`
	want := []string{"action hash(l4) Service/shop/db: TC has no such action", "output: the packets leave by a port", ": then 2 is left", "give the other end a VF: then hardware"}
	got := eval[[]string](p, steps)
	if len(got) != len(want) {
		t.Fatalf("advice %q", got)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("line %d of the advice is %q, want %q", i, got[i], want[i])
		}
	}
	p.shows("kubectl get pod/web-0 -n shop -o yaml")
	p.open("#/pod/shop/alone")
	p.shows("Pod shop/alone")
	if got, text := eval[[]string](p, steps), p.text("main"); len(got) > 0 || strings.Contains(text, "Events") {
		t.Errorf("a pod without flows: advice %q, text\n%s", got, text)
	}
	p.clean()
}

// moving has a path whose packets end.
type moving struct {
	fake
	idle *atomic.Bool
}

func (m moving) Live(ctx context.Context, from, to string) (*answer.Live, error) {
	if m.idle.Load() {
		to = "svc/shop/db:9/tcp"
	}
	return m.fake.Live(ctx, from, to)
}

// TestBrowser_PathIsThatOfThePackets: in the band of each stream with as many dots as it has packets, and on both nodes. It follows: when
// the packets end, the computed path is shown, which says so. What is typed meanwhile stays.
func TestBrowser_PathIsThatOfThePackets(t *testing.T) {
	_, facts := fixture(t, "shop", time.Now())
	var idle atomic.Bool
	server := serve(t, func(*http.Request) (Facts, error) { return moving{facts, &idle}, nil })
	p := newTab(chromium(t), t, server.URL)
	p.open("#/path?from=pod/shop/web-0&to=svc/shop/db:5432/tcp")
	p.shows("These flows forward the packets now")
	const counts = `["hardware", "software", "drop"].flatMap((place) => [document.querySelectorAll("svg.scene path.way." + place).length, document.querySelectorAll("circle.dot." + place).length])`
	if got, want := eval[[]int](p, counts), []int{3, 18, 2, 5, 0, 0}; !slices.Equal(got, want) { // 90000, 90200 and 45000 packets a second; 200 and 3
		t.Errorf("ways and dots in hardware, in software and dropped: %v, want %v", got, want)
	}
	if words := eval[string](p, `document.querySelector("main details").textContent`); !strings.Contains(words, "node worker-1: 2000 packets in tc because of action hash(l4), 200 a second") || strings.Contains(words, "not measured") {
		t.Errorf("in words: %s", words)
	}
	p.run(chromedp.SendKeys(chromedp.CSS("input[name=to]"), "x"))
	idle.Store(true)
	p.shows("No flow forwards such packets now. This path is computed")
	if got := eval[[]string](p, `[document.activeElement.name, document.activeElement.value]`); !slices.Equal(got, []string{"to", "xsvc/shop/db:5432/tcp"}) {
		t.Errorf("what was typed: %q", got)
	}
	p.open("?dropped#/path?from=pod/shop/web-0&to=pod/shop/db-1:22/tcp")
	idle.Store(false)
	p.until(`document.querySelector("svg.scene path.way.drop")`)
	if got, want := eval[[]int](p, counts), []int{0, 0, 2, 4, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("of dropped packets: %v, want %v", got, want)
	}
	bad := eval[[]float64](p, `(() => { const b = document.querySelector(".box.bad rect").getBBox(), w = document.querySelector("svg.scene path.way.drop").getBBox(); return [b.x, w.x, b.x + b.width, b.y + b.height, w.y]; })()`)
	if bad[1] < bad[0] || bad[1] > bad[2] || bad[4] < bad[3] {
		t.Errorf("the packets fall out at %v, want them below their station", bad)
	}
	p.clean()
}

// TestBrowser_PathHasTheRulesOfTC of the flows that have one, with what the NIC's driver has taken and counted. Flows in Open vSwitch alone
// have none.
func TestBrowser_PathHasTheRulesOfTC(t *testing.T) {
	p := shopTab(t)
	p.open("#/path?from=pod/shop/web-0&to=svc/shop/db:5432/tcp")
	p.shows("These flows forward the packets now")
	const rules = `[...document.querySelectorAll("main tbody tr")].map((r) => [...r.cells].map((c) => c.textContent)).filter((c) => c[2] === "rule of TC").map((c) => c.join("|"))`
	want := []string{
		"there|node/worker-1|rule of TC|pf0vf1 chain 0 pref 2 handle 0x1: 899000 packets in hardware||0f6c1d2e|in_hw||",
		"there|node/worker-1|rule of TC|pf0vf1 chain 18 pref 3 handle 0x1a: 0 packets in hardware||0f6c1d2e|not_in_hw||",
		"there|node/worker-2|rule of TC|genev_sys_6081 chain 0 pref 2 handle 0x1: 899000 packets in hardware||0f6c1d2e|in_hw||",
		"back|node/worker-2|rule of TC|not known: TC has no rule of the flow on pf0vf5 now||0f6c1d2e|||",
	}
	if got := eval[[]string](p, rules); !slices.Equal(got, want) {
		t.Errorf("rules of TC\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	p.open("?dropped#/path?from=pod/shop/web-0&to=pod/shop/db-1:22/tcp")
	p.until(`document.querySelector("svg.scene path.way.drop")`)
	if got := eval[[]string](p, rules); len(got) > 0 {
		t.Errorf("flows in Open vSwitch alone have rules of TC: %q", got)
	}
	p.clean()
}

// TestBrowser_FlowsHaveTheFiltersOfTheCommand, which the form writes into the address. What is no filter is refused in words.
func TestBrowser_FlowsHaveTheFiltersOfTheCommand(t *testing.T) {
	p := shopTab(t)
	p.open("#/flows")
	p.run(chromedp.WaitVisible(chromedp.CSS("input[name=of]")), chromedp.SetValue(chromedp.CSS("select[name=place]"), "tc"), chromedp.SendKeys(chromedp.CSS("input[name=port]"), "5432"),
		chromedp.SendKeys(chromedp.CSS("input[name=of]"), "pod/shop/web-0"+kb.Enter))
	p.shows("1 of 1 streams that the filter chooses, of 8 of the namespace")
	if got, want := p.text("#command"), "kubectl offload flows -n shop --pod web-0 --port 5432 --place tc"; got != want {
		t.Errorf("command %q, want %q", got, want)
	}
	if got := eval[[]string](p, `["of", "port", "place"].map((name) => document.querySelector("[name=" + name + "]").value)`); !slices.Equal(got, []string{"pod/shop/web-0", "5432", "tc"}) {
		t.Errorf("the form has %q", got)
	}
	p.clean()
	p.open("?refused#/flows?namespace=shop&reason=magic")
	p.shows(`--reason "magic": want one of`)
	p.open("?node#/flows")
	p.run(chromedp.WaitVisible(chromedp.CSS("input[name=of]")), chromedp.SendKeys(chromedp.CSS("input[name=port]"), "5432"), chromedp.SendKeys(chromedp.CSS("input[name=of]"), "node/worker-1"+kb.Enter))
	p.until(`document.querySelector("input[name=of]").validationMessage.includes("filters are for")`)
}

// TestBrowser_KeysGoThroughTheStations of a path, and open what a station is about.
func TestBrowser_KeysGoThroughTheStations(t *testing.T) {
	p := shopTab(t)
	p.emulate("prefers-reduced-motion", "reduce")
	p.open("#/path?from=pod/shop/web-0&to=svc/shop/db:5432/tcp")
	p.until(`document.querySelector("[data-key='there from']")`)
	if n := eval[int](p, `document.querySelectorAll("animateMotion").length`); n > 0 {
		t.Errorf("%d dots for who wants no motion", n)
	}
	p.run(chromedp.Focus(chromedp.CSS(`[data-key="there from"]`)))
	for _, want := range []string{"egress[0]: allow-related, netpol/shop/web-egress", "load balancer: to pod/shop/db-1, svc/shop/db", "wire, tunnel with"} {
		p.run(chromedp.KeyEvent(kb.ArrowRight))
		if got := eval[string](p, `document.activeElement.getAttribute("aria-label")`); !strings.HasPrefix(got, want) {
			t.Errorf("the focus is at %q, want %q", got, want)
		}
	}
	p.run(chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.Enter))
	p.until(`location.hash === "#/policies?namespaces=shop"`)
	p.clean()
}

// TestBrowser_AnEmptyClusterHasNothingToShow, and each view says so.
func TestBrowser_AnEmptyClusterHasNothingToShow(t *testing.T) {
	browser := chromium(t)
	server := serve(t, constant(fake{snapshot.New(time.Now(), "ovn-kubernetes")}))
	for hash, want := range map[string]string{
		"#/overview": "0 of 0", "#/health": "0 of 0", "#/worst": "no pod with a VF has traffic outside hardware", "#/map?namespaces=quiet": "no pods and no services",
		"#/policies?namespaces=quiet": "These namespaces have no policies", "#/node/gone": "there is no node gone", "#/pod/shop/gone": "there is no pod shop/gone",
	} {
		p := newTab(browser, t, server.URL)
		p.open(hash)
		p.shows(want)
		if !strings.Contains(want, "gone") { // the browser logs the status of what is not there
			p.clean()
		}
		p.close()
	}
}

// TestBrowser_NothingJumpsWhenAViewChanges: the sum of the shifts stays below what browsers call good.
func TestBrowser_NothingJumpsWhenAViewChanges(t *testing.T) {
	_, facts := fixture(t, "shop", time.Now())
	var idle atomic.Bool
	server := serve(t, func(*http.Request) (Facts, error) { return moving{facts, &idle}, nil })
	p := newTab(chromium(t), t, server.URL)
	p.open("#/path?from=pod/shop/web-0&to=svc/shop/db:5432/tcp")
	p.shows("These flows forward the packets now")
	eval[bool](p, `(() => { window.shifted = 0; new PerformanceObserver((l) => l.getEntries().forEach((e) => { window.shifted += e.value; })).observe({ type: "layout-shift" }); return true; })()`)
	const drawn = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(window.shifted), 100))))`
	for _, want := range []string{"This path is computed", "These flows forward"} {
		idle.Store(!idle.Load())
		p.shows(want)
	}
	if shift := eval[float64](p, drawn); shift > .1 {
		t.Errorf("shifted by %.3f", shift)
	}
	eval[bool](p, `(() => { const push = document.createElement("div"); push.style.height = "300px"; document.body.prepend(push); return true; })()`)
	if shift := eval[float64](p, drawn); shift < .1 {
		t.Errorf("a page that was pushed down: %.3f, the test sees no shift", shift)
	}
	p.clean()
}

// TestBrowser_DotsStopForWhoWantsNoMotion: the ways stay, with words.
func TestBrowser_DotsStopForWhoWantsNoMotion(t *testing.T) {
	p := shopTab(t)
	for motion, want := range map[string]bool{"no-preference": true, "reduce": false} {
		p.emulate("prefers-reduced-motion", motion)
		p.open("?" + motion + "#/node/worker-1")
		p.run(chromedp.WaitVisible(chromedp.CSS("svg.scene")))
		moves := eval[bool](p, `document.querySelector("animateMotion") !== null`)
		ways := eval[int](p, `document.querySelectorAll("path.way.hardware, path.way.software").length`)
		if moves != want || ways < 4 {
			t.Errorf("%s: moves %v, %d ways", motion, moves, ways)
		}
	}
	p.clean()
}

// TestBrowser_ComesBackAfterACut: it says so while the server is gone, and shows the newest afterwards.
func TestBrowser_ComesBackAfterACut(t *testing.T) {
	_, facts := fixture(t, "shop", time.Now())
	c := changing{make(chan fake, 1)}
	c.now <- facts
	var cut atomic.Bool
	page := (&Server{Facts: c.facts, Period: 20 * time.Millisecond}).Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut.Load() {
			panic(http.ErrAbortHandler)
		}
		page.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p := newTab(chromium(t), t, server.URL)
	p.open("#/health")
	p.shows("master-0-abc")
	cut.Store(true)
	server.CloseClientConnections()
	p.shows("the connection is cut")
	<-c.now
	c.now <- large(time.Now(), 7)
	cut.Store(false)
	p.shows("7 nodes")
	if fault := p.text("#fault"); fault != "" {
		t.Errorf("after it came back: %q", fault)
	}
}

// TestBrowser_AKilledReplicaIsReplaced: the Service of the relay leads to the dead replica for a while, and then to the other one. The
// page goes on there without being loaded again.
func TestBrowser_AKilledReplicaIsReplaced(t *testing.T) {
	_, facts := fixture(t, "shop", time.Now())
	first, second := serve(t, constant(facts)), serve(t, constant(large(time.Now(), 7)))
	var to atomic.Pointer[url.URL]
	lead := func(s *httptest.Server) {
		address, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		to.Store(address)
	}
	lead(first)
	var failed atomic.Int32
	service := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1, ErrorLog: stdlog.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to.Load()) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			failed.Add(1)
			http.Error(w, "no endpoint answers", http.StatusServiceUnavailable)
		},
	})
	t.Cleanup(service.Close)
	p := newTab(chromium(t), t, service.URL)
	p.open("#/health")
	p.shows("master-0-abc")
	eval[bool](p, `window.loaded = true`)
	first.CloseClientConnections()
	first.Listener.Close()
	p.shows("no endpoint answers")
	if failed.Load() == 0 || strings.Contains(p.text("main"), "7 nodes") {
		t.Errorf("%d requests failed while no replica was there: %s", failed.Load(), p.text("main"))
	}
	lead(second)
	p.shows("7 nodes")
	if same := eval[bool](p, `window.loaded === true`); !same || p.text("#fault") != "" {
		t.Errorf("the page is the same: %v, fault %q", same, p.text("#fault"))
	}
}

// TestBrowser_SaysWhatIsRefused: a session that ends while the page is open, a pod that is not there, a part that is missing.
func TestBrowser_SaysWhatIsRefused(t *testing.T) {
	_, facts := fixture(t, "shop", time.Now())
	var ended atomic.Bool
	server := serve(t, func(*http.Request) (Facts, error) {
		if ended.Load() {
			return nil, ErrUnknown
		}
		facts.s.Missing["nodeoffloads"] = "forbidden"
		return facts, nil
	})
	p := newTab(chromium(t), t, server.URL)
	p.open("#/health")
	p.shows("not known: nodeoffloads: forbidden")
	p.clean()
	p.open("#/pod/shop/gone")
	p.shows("there is no pod shop/gone")
	p.open("#/health")
	p.shows("master-0-abc")
	ended.Store(true)
	p.shows("sign in again")
}

// TestBrowser_ManyNodes holds the budgets of the page: its size, first paint and the time of an update.
func TestBrowser_ManyNodes(t *testing.T) {
	size := 0
	for _, name := range []string{"index.html", "style.css", "dom.js", "scene.js", "views.js", "app.js", "icon.svg"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
	}
	if size > 150_000 {
		t.Errorf("the page has %d bytes", size)
	}
	server := serve(t, constant(large(time.Now(), 2000)))
	p := newTab(chromium(t), t, server.URL)
	p.open("#/overview")
	p.until(`document.querySelectorAll("a.square").length === 2000`)
	drawn := eval[float64](p, `performance.now()`)
	paint := eval[float64](p, `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0`)
	frame := eval[float64](p, `new Promise((done) => { const times = []; let last = performance.now();
		const next = (now) => { times.push(now - last); last = now; if (times.length < 40) requestAnimationFrame(next); else done(times.sort((a, b) => a - b)[20]); };
		requestAnimationFrame(next); })`)
	heap := eval[float64](p, `performance.memory.usedJSHeapSize / 1e6`)
	t.Logf("%d bytes; first paint %.0f ms, 2,000 nodes drawn after %.0f ms, frame %.1f ms, heap %.0f MB", size, paint, drawn, frame, heap)
	if drawn > 10_000 || frame > 100 || heap > 150 { // far above what is measured: the machine of a test may be busy
		t.Error("the page is too slow or too large")
	}
	p.clean()
}

// TestBrowser_GetsInByTheToken of kubectl offload ui: the address has it once, and then a cookie does.
func TestBrowser_GetsInByTheToken(t *testing.T) {
	_, facts := fixture(t, "shop", time.Now())
	server := httptest.NewServer(Local("secret", (&Server{Facts: constant(facts), Period: time.Second}).Handler()))
	t.Cleanup(server.Close)
	p := newTab(chromium(t), t, server.URL)
	p.open("?token=" + url.QueryEscape("secret"))
	p.shows("nodes without a problem")
	if address := eval[string](p, "location.href"); strings.Contains(address, "secret") {
		t.Errorf("the address has the token: %s", address)
	}
	p.clean()
}

// TestBrowser_AWayChangesItsBand when a pod's packets leave the hardware, and the page says why, without being loaded again.
func TestBrowser_AWayChangesItsBand(t *testing.T) {
	with := func(hardware int64, outside ...any) fake {
		s := snapshot.New(time.Now(), "ovn-kubernetes")
		s.Add(snapshot.Nodes, map[string]any{"metadata": map[string]any{"name": "worker-1"}})
		s.Add(snapshot.Pods, map[string]any{"metadata": map[string]any{"namespace": "shop", "name": "web-9"}, "spec": map[string]any{"nodeName": "worker-1"}, "status": map[string]any{"phase": "Running"}})
		share := map[string]any{"hardware": hardware, "tc": 100 - hardware, "ovs": int64(0)}
		s.Add(snapshot.NodeOffloads, map[string]any{"metadata": map[string]any{"name": "worker-1"}, "status": map[string]any{
			"offload": "on", "deviceCount": int64(1), "devices": []any{map[string]any{"name": "0000:3b:00.0", "mode": "switchdev"}},
			"usedVFs": []any{map[string]any{"device": "0000:3b:00.3", "pf": "0000:3b:00.0", "pod": "shop/web-9", "phase": "attached"}},
			"traffic": []any{map[string]any{"pod": "shop/web-9", "port": "pf0vf1", "flows": share, "packets": share, "outside": outside}},
		}})
		return fake{s}
	}
	c := changing{make(chan fake, 1)}
	c.now <- with(100)
	server := serve(t, c.facts)
	p := newTab(chromium(t), t, server.URL)
	p.open("#/pod/shop/web-9")
	p.until(`document.querySelectorAll("main path.way.hardware").length > 0`)
	bands := `[document.querySelectorAll("svg.scene path.way.hardware").length, document.querySelectorAll("svg.scene path.way.software").length]`
	if got := eval[[]int](p, bands); got[0] != 1 || got[1] != 0 {
		t.Errorf("in hardware: %v ways in hardware and in software, want 1 and 0", got)
	}
	<-c.now
	c.now <- with(0, map[string]any{"reason": "port", "detail": "hw-tc-offload is off"})
	p.shows("hw-tc-offload is off")
	if got := eval[[]int](p, bands); got[0] != 0 || got[1] != 1 {
		t.Errorf("switched off: %v ways in hardware and in software, want 0 and 1", got)
	}
	p.clean()
}
