// The reverse proxy of Go's standard library with one upstream, as a reference: goproxy LISTEN UPSTREAM-URL
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: goproxy HOST:PORT http://HOST:PORT")
	}
	upstream, err := url.Parse(os.Args[2])
	if err != nil {
		log.Fatalf("%s: %v", os.Args[2], err)
	}
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{
		MaxIdleConns:        4096,
		MaxIdleConnsPerHost: 4096,
		IdleConnTimeout:     60 * time.Second,
		DisableCompression:  true,
	}
	proxy.ErrorLog = log.New(os.Stderr, "", 0)
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr())
	log.Fatal(http.Serve(listener, proxy))
}
