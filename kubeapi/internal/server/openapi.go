package server

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"

	"portolan.dev/kubeapi/internal/openapi"
	"portolan.dev/kubeapi/internal/wire"
)

// The media types of the documents in protobuf. Some clients send v2@v1.0 for v2.v1.0, although media
// types may not contain an at sign.
const (
	openAPIv2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	openAPIv3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// addOpenAPI adds the OpenAPI documents.
func addOpenAPI(all map[string]func(*request) error) {
	all["/openapi/v3"] = sendOpenAPIIndex
	all["/openapi/v2"] = openAPI(openapi.V2(), openAPIv2)
	for path, document := range openapi.V3() {
		all["/openapi/v3/"+path] = openAPI(document, openAPIv3)
	}
}

// openAPI returns the handler of a document. protobuf is its media type in protobuf. Unlike the documents of
// discovery it counts against the limit of requests, because decompressing it takes some milliseconds.
func openAPI(document openapi.Document, protobuf string) func(*request) error {
	return func(req *request) error {
		return req.server.limited(func() error { return req.openAPI(document, protobuf) })
	}
}

func sendOpenAPIIndex(req *request) error {
	if err := req.onlyGet(); err != nil {
		return err
	}
	index := openapi.Index()
	if req.unchanged(index.Tag) {
		return nil
	}
	return req.sendCompressed(wire.JSON, index.Gzip)
}

// openAPI answers with a document.
func (req *request) openAPI(document openapi.Document, protobuf string) error {
	if err := req.onlyGet(); err != nil {
		return err
	}
	header := req.w.Header()
	header.Set("Vary", "Accept, Accept-Encoding")
	contentType, encoded := wire.JSON, document.JSON
	switch req.accepted(wire.JSON, protobuf) {
	case "":
		return wire.NotAcceptable(false, wire.JSON, protobuf)
	case protobuf:
		contentType, encoded = protobuf, document.Protobuf
	}
	header.Set("Cache-Control", "no-cache, private")
	switch hash := req.query.Get("hash"); hash {
	case "":
	case document.JSON.Tag:
		// The content at this address never changes.
		header.Set("Cache-Control", "public, immutable")
		header.Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	default:
		// The client got this address from another version of the server.
		req.code = http.StatusMovedPermanently
		http.Redirect(req.w, req.r, req.r.URL.Path+"?hash="+document.JSON.Tag, req.code)
		return nil
	}
	if req.unchanged(encoded.Tag) {
		return nil
	}
	return req.sendCompressed(contentType, encoded.Gzip)
}

// accepted returns the first of the media types that the client accepts, and "" if it accepts none.
func (req *request) accepted(types ...string) string {
	accept := strings.Join(req.r.Header.Values("Accept"), ",")
	if accept == "" {
		return types[0]
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		wanted := clause.Type + "/" + strings.Replace(clause.SubType, "@", ".", 1)
		for _, t := range types {
			if wanted == t || wanted == "*/*" || wanted == "application/*" {
				return t
			}
		}
	}
	return ""
}

// unchanged reports whether the client has the content with this tag already. If so, it answers the request.
func (req *request) unchanged(tag string) bool {
	quoted := strconv.Quote(tag)
	req.w.Header().Set("ETag", quoted)
	for have := range strings.SplitSeq(req.r.Header.Get("If-None-Match"), ",") {
		if strings.TrimPrefix(strings.TrimSpace(have), "W/") == quoted {
			req.code = http.StatusNotModified
			req.w.WriteHeader(req.code)
			return true
		}
	}
	return false
}

// sendCompressed answers with a compressed document as it is, if the client accepts that. Otherwise it
// decompresses the document while it sends it, so that the answer takes little memory.
func (req *request) sendCompressed(contentType string, compressed []byte) error {
	var content io.Reader = bytes.NewReader(compressed)
	if req.acceptsGzip() {
		req.w.Header().Set("Content-Encoding", "gzip")
		req.w.Header().Set("Content-Length", strconv.Itoa(len(compressed)))
	} else {
		r, err := gzip.NewReader(content)
		if err != nil {
			return err
		}
		content = r
	}
	req.begin(http.StatusOK, contentType)
	_, _ = io.Copy(deadlined{req}, content) // the client is gone, if it fails
	return nil
}

// acceptsGzip reports whether the client accepts answers that gzip compressed.
func (req *request) acceptsGzip() bool {
	for coding := range strings.SplitSeq(strings.Join(req.r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		weight = strings.TrimSpace(weight)
		if strings.TrimSpace(name) == "gzip" && weight != "q=0" {
			return true
		}
	}
	return false
}

// deadlined writes an answer, and extends the deadline before each part.
type deadlined struct{ req *request }

// Write implements io.Writer.
func (d deadlined) Write(part []byte) (int, error) {
	d.req.extendDeadline()
	return d.req.w.Write(part)
}
