// Command generate writes the OpenAPI documents that kubeapi serves, compressed, into the folder -out.
//
// They are the documents that Kubernetes publishes in its source (api/openapi-spec of k8s.io/kubernetes),
// at the version of kubeapi's own types, without the paths, verbs, parameters, encodings and definitions
// that kubeapi does not serve. Which it serves is read from package resource. The source is fetched as a
// Go module, 22 MB, and its checksum is pinned here.
//
// Two other ways were weighed. openapi-gen makes the definitions from k8s.io/api's Go files, but not the
// paths, which would have to be written here, and its output has to be compiled. The Go types' own
// methods SwaggerDoc lack the markers of the lists that are maps, which server-side apply needs.
//
// With -check nothing is written. Instead the documents that differ are listed, and the exit code is 1.
// The contents are compared, and not the compressed files, because another version of Go may compress
// otherwise.
package main
