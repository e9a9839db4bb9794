package web

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
)

// cookieName is that of the cookie that a browser gets for the token.
const cookieName = "ovn-offload"

// NewToken is a secret for Local.
func NewToken() string { return rand.Text() }

// Local lets requests through that know a token: other users of the machine reach its loopback address too, and so do pages
// of other origins through the browser. The address /?token=TOKEN gives the browser a cookie.
func Local(token string, next http.Handler) http.Handler {
	same := func(text string) bool { return subtle.ConstantTimeCompare([]byte(text), []byte(token)) == 1 }
	return Secure(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) {
			http.Error(w, "the page is served at 127.0.0.1 only", http.StatusForbidden)
			return
		}
		if r.URL.Path == "/" && same(r.URL.Query().Get("token")) {
			http.SetCookie(w, &http.Cookie{Name: cookieName, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		if cookie, err := r.Cookie(cookieName); err != nil || !same(cookie.Value) {
			fail(w, ErrUnknown)
			return
		}
		next.ServeHTTP(w, r)
	}))
}

// loopback refuses names that another page has made to mean this machine.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}
