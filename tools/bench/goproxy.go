// The reverse proxy of Go's standard library with one upstream, as a reference: goproxy LISTEN UPSTREAM-URL
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

// A request body that is at its end once it has its length. Go's transport looks for more before it is done with a
// request; when the answer has begun by then, the server has closed the body, and the answer is cut off for it.
type measured struct {
	io.ReadCloser
	left int64
}

func (body *measured) Read(into []byte) (int, error) {
	if body.left <= 0 {
		return 0, io.EOF
	}
	count, err := body.ReadCloser.Read(into)
	body.left -= int64(count)
	return count, err
}

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
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if request.ContentLength > 0 {
			request.Body = &measured{request.Body, request.ContentLength}
		}
		proxy.ServeHTTP(answer, request)
	})))
}
