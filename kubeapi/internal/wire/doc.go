// Package wire has the encodings of the API: which one a client accepts, how objects are written in it,
// and how the body of a request is read.
//
// The encodings are JSON, YAML and the protobuf of Kubernetes. In each of them an object can be sent as
// its metadata alone, and in JSON and YAML as a Table, which kubectl prints without knowing the kind.
package wire
