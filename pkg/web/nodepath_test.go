package web

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestBrowser_PathBeginsAtANode: the view of a node leads to the form, and the first box of the drawing back to the node. A client outside
// has no path here, and the page says which command has it.
func TestBrowser_PathBeginsAtANode(t *testing.T) {
	p := shopTab(t)
	p.open("#/node/worker-1")
	p.shows("Node worker-1")
	p.run(chromedp.Click(chromedp.CSS(`main a[href^="#/path?from=node"]`)), chromedp.SendKeys(chromedp.CSS("input[name=to]"), "svc/shop/db:5432/tcp"+kb.Enter))
	p.until(`document.querySelector("[data-key='there from']")`)
	if got, want := p.text("#command"), "kubectl offload trace node/worker-1 svc/shop/db:5432/tcp --live"; got != want {
		t.Errorf("command %q, want %q", got, want)
	}
	if got := eval[string](p, `document.querySelector("[data-key='there from']").getAttribute("href")`); got != "#/node/worker-1" {
		t.Errorf("the first box leads to %q", got)
	}
	p.clean()
	p.open("?outside#/path?from=outside&to=svc/shop/db:5432/tcp")
	p.shows("kubectl offload trace outside TARGET --at NODE")
}
