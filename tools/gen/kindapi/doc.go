// Package kindapi writes the .proto files of the services that keep the objects of one kind, such as
// LeaseService: the methods and messages of all kinds are the same but for names.
//
// Three sources decide about a file. The envelope core.v1.Object lists the kinds. The message of a kind says
// whether it has a status, and its comment says what the kind is. The row in services/kinds/table.go says
// whether the kind has namespaces, and its plural. That file is read as text, because it does not compile
// before the code of a new kind is generated. The notes in this package are for the few kinds that differ.
package kindapi
