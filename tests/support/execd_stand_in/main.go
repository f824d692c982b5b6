// Command execd-stand-in answers the few routes of OpenSandbox's execd 1.0.19 that matter to a reader of usage.
// The real one is published on no package registry, so the tests bring this one into their sandboxes instead.
package main

import (
	"encoding/json"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

const (
	address     = ":44772"
	tokenHeader = "X-EXECD-ACCESS-TOKEN"
)

func main() {
	listener, err := net.Listen("tcp4", address)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, logged(authorised(os.Getenv("EXECD_ACCESS_TOKEN"), routes()))))
}

func routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, readMetrics())
	})
	mux.HandleFunc("/proxy/{port}/{path...}", forward)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("404 page not found"))
	})
	return mux
}

// forward hands a request to a port of the sandbox's own loopback; the direct endpoint of a sandbox on Docker
// reaches even execd itself this way.
func forward(w http.ResponseWriter, r *http.Request) {
	target := &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", r.PathValue("port"))}
	log.Printf("proxy: %s %s -> %s", r.Method, r.URL.Path, target.Host)
	proxy := httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			request.Out.URL.Path = "/" + r.PathValue("path")
			request.Out.URL.RawPath = ""
			request.SetXForwarded()
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "Bad Gateway", http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(w, r)
}

// authorised asks for the access token where one is set; it guards every route, proxied ones too.
func authorised(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(tokenHeader) != token {
			respond(w, http.StatusUnauthorized, map[string]string{
				"error": "Unauthorized: invalid or missing header " + tokenHeader,
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// logged writes each request into the sandbox's own log, the trace that polling leaves for its user.
func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Printf("request: %s %s", r.Method, r.URL)
		next.ServeHTTP(w, r)
	})
}

func respond(w http.ResponseWriter, status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(encoded)
}
