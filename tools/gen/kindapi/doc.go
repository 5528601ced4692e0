// Package kindapi writes the .proto files of the services that keep the objects of one kind, such as
// LeaseService: the methods and messages of all kinds are the same but for names.
//
// Package kindapi reads the kinds from the envelope core.v1.Object. The message of a kind shows whether it
// has a status, and the first sentence of its comment describes the kind. The row in services/kinds/table.go
// has the plural, and whether the kind has namespaces. Package kindapi parses this file without compiling
// it, because it does not compile before the code of a new kind is generated. The notes in this package
// have the texts of the few kinds that differ.
package kindapi
