// Package failure converts errors of the registry to Kubernetes' Status.
//
// Clients of Kubernetes decide by the reason, the code and the causes of a Status: they try again after
// a conflict, list again after 410, and show the field of each cause. So each error of the registry has
// one Status, and all its violations are causes.
package failure
