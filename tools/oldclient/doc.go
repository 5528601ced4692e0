// Command oldclient follows the objects of a Kubernetes API with the informers of an old client-go,
// from before WatchList. The tests of kubeapi run it, because a program can link only one version of
// client-go, and the tests link the newest.
//
//	oldclient -kubeconfig FILE -resync 1s
//
// It prints one JSON object a line: {"type":"SYNCED"} when all informers have the first complete view,
// and for each notice of an informer its type (ADDED, UPDATED or DELETED), the object's resource and key,
// and its resource version. SIGTERM ends it.
package main
