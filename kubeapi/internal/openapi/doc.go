// Package openapi has the OpenAPI documents of the API: what kubectl explains, what it checks manifests
// against, and what server-side apply knows of lists that are maps.
//
// The documents are generated (see the command in the folder generate), so serving one is sending a
// file. They are stored compressed, as JSON and as protobuf, because clients ask for both: 0.9 MB in the
// program. A client that accepts gzip gets the stored bytes. Nothing is decompressed
// before somebody asks for it, and nothing that was decompressed is kept.
//
// The schemas are those of Kubernetes, with the fields that Portolan does not have. Portolan drops these
// with a warning, as the description of each kind says, and a client-side check of a manifest that has
// them must not fail.
package openapi
