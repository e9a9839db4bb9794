package web

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
)

// cookiePrefix begins the name of the cookie of a browser that has signed in. The rest is another one for each command:
// browsers keep one cookie of a name for all ports of an address.
const cookiePrefix = "ovn-offload-"

// NewToken is a secret for Local.
func NewToken() string { return rand.Text() }

// local is the door of the page on this machine.
type local struct {
	token string
	// signedIn: the token was used.
	signedIn atomic.Bool
	// cookie is the name of the cookie, secret its value, and place the path of the page, such as "/A5CX/". Other
	// servers of this machine get no cookie of this path, although browsers send cookies to all ports.
	cookie, secret, place string
	next                  http.Handler
}

// Local lets requests through of the browser that has signed in: other users of the machine reach its loopback address
// too, and so do pages of other origins through the browser. The address /?token=TOKEN gives one browser a cookie, and
// leads it to the page.
func Local(token string, next http.Handler) http.Handler {
	l := &local{token: token, cookie: cookiePrefix + NewToken(), secret: NewToken(), place: "/" + NewToken() + "/"}
	l.next = http.StripPrefix(strings.TrimSuffix(l.place, "/"), next)
	return Secure(l)
}

// ServeHTTP implements http.Handler.
func (l *local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !loopback(r.Host):
		http.Error(w, "the page is served at 127.0.0.1 only", http.StatusForbidden)
	case strings.HasPrefix(r.URL.Path, l.place) && l.isKnown(r):
		l.next.ServeHTTP(w, r)
	case r.URL.Path == "/" && equal(r.URL.Query().Get("token"), l.token) && l.signedIn.CompareAndSwap(false, true):
		http.SetCookie(w, &http.Cookie{Name: l.cookie, Value: l.secret, Path: l.place, HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, l.place, http.StatusSeeOther)
	default:
		fail(w, ErrUnknown)
	}
}

func (l *local) isKnown(r *http.Request) bool {
	cookie, err := r.Cookie(l.cookie)
	return err == nil && equal(cookie.Value, l.secret)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// loopback refuses names that another page has made to mean this machine.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}
