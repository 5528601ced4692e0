package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
)

//go:embed documents/*.gz
var files embed.FS

// Document is a document in both encodings.
type Document struct {
	JSON, Protobuf Encoded
}

// Encoded is a document in one encoding.
type Encoded struct {
	// Gzip is the document, compressed.
	Gzip []byte
	// Tag identifies the content: two documents with the same tag are equal.
	Tag string
}

// Content returns the document, decompressed.
func (e Encoded) Content() ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(e.Gzip))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// V2 returns the document of OpenAPI v2, which describes the whole API.
func V2() Document { return named("v2") }

// V3 returns the documents of OpenAPI v3 by the paths of the API that they describe, such as
// apis/discovery.k8s.io/v1.
func V3() map[string]Document { return v3() }

var v3 = sync.OnceValue(func() map[string]Document {
	entries, err := files.ReadDir("documents")
	if err != nil {
		panic(err) // impossible: the folder is part of the program
	}
	found := map[string]Document{}
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".json.gz"); ok && strings.HasPrefix(name, "v3__") {
			found[strings.ReplaceAll(strings.TrimPrefix(name, "v3__"), "__", "/")] = named(name)
		}
	}
	return found
})

func named(name string) Document {
	return Document{JSON: encoded(name + ".json.gz"), Protobuf: encoded(name + ".pb.gz")}
}

func encoded(file string) Encoded {
	content, err := files.ReadFile("documents/" + file)
	if err != nil {
		panic(err) // impossible: the generator writes both encodings of each document
	}
	return tagged(content)
}

func tagged(compressed []byte) Encoded {
	hash := sha256.Sum256(compressed)
	return Encoded{Gzip: compressed, Tag: strings.ToUpper(hex.EncodeToString(hash[:]))}
}

// Index returns the index of the documents of OpenAPI v3, in JSON. The address of each document has the tag
// of its content, so a client may keep the document for as long as the address is the same.
var Index = sync.OnceValue(func() Encoded {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := map[string]entry{}
	for path, d := range v3() {
		paths[path] = entry{"/openapi/v3/" + path + "?hash=" + d.JSON.Tag}
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	err := json.NewEncoder(w).Encode(map[string]any{"paths": paths})
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // impossible: the fields are texts, and a buffer takes everything
	}
	return tagged(compressed.Bytes())
})
