// Package response builds the responses of the registry's API from encoded objects.
//
// The view keeps every object in encoded form. The response of a Get, a page of a List and a change
// of a Watch consist of these bytes with a few more around them. Responses are therefore sent
// without decoding or encoding objects, and thousands of watchers share one encoding of a change.
// The price is that the field numbers of the API are repeated here. [Check], which the API calls
// for every service that it registers, compares them with the descriptors.
//
// The alternative, generated response messages that hold decoded objects, would cost one encoding
// per response and watcher.
package response
