// Command oldclient follows the objects of a Kubernetes API with the informers of an old client-go, which
// does not know WatchList. The tests of kubeapi run it as a program, because they link the newest client-go,
// and a program can link only one version.
//
//	oldclient -kubeconfig FILE -resync 1s
//
// Each line of its output is a JSON object: {"type":"SYNCED"} when all informers have read all objects, and
// for each notification of an informer its type (ADDED, UPDATED or DELETED) with the object's resource, key
// and resource version. SIGTERM ends it.
package main
