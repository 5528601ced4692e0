// Package kinds says what is special about each kind of object; everything else in the registry treats all kinds alike.
//
// What an object must look like is in services/spec. What is here needs more than the object: other objects, the installation, or the moment of the
// write. A kind without a row here has nothing special.
package kinds
