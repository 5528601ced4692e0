// Package kube converts objects of the contract to the types of Kubernetes (k8s.io/api), and back.
//
// Reading a written object returns the same object, except for two parts. Managed fields are read
// separately ([ReadOwners]), because the registry keeps them itself. Times lose the fractions that
// Kubernetes' types lack. Fields that Portolan has and Kubernetes lacks are annotations under
// portolan.dev. An object with such an annotation sets the field, and the annotation itself is not
// stored.
//
// Reading loses the fields that Portolan lacks, such as the volumes of a pod. [Codec.Lost] and
// [LostFields] name them, so that the user can be warned.
//
// kubeapi uses the package for its clients, and services/manifest for manifests. They differ in the
// texts of violations ([Messages]), in the rules for fields that are reported as lost, and in the source
// of an Event ([EventWithSource]).
//
// # Types
//
// Two shapes were weighed:
//
//   - services/manifest has its own copy of Kubernetes' types, generated from k8s.io/api, and its own
//     conversions to them. Programs that read manifests then do not link k8s.io. That was 1,934 lines of
//     types, 250 lines of a generator with tests, and 1,000 lines of conversions that kubeapi had a second
//     time, with 45 lines that differed.
//   - One conversion to the types of k8s.io/api, for both.
//
// Two programs read manifests: portolan, which links k8s.io/api in any case because it contains kubeapi,
// and registrar. Measured (stripped, linux/amd64):
//
//	            own types          k8s.io/api         difference
//	registrar   20.2 MB            25.1 MB            +4.9 MB, 58 packages more
//	            starts in 6.4 ms   7.3 ms             +1 ms of CPU, +2 MB of memory
//	portolan    43.9 MB            43.6 MB            -0.3 MB
//
// The module services requires k8s.io/api and k8s.io/apimachinery, and seven small modules below
// them, each in the version that kubeapi already had. Of the other modules only registrar gets new
// requirements. The daemons that do not read manifests link nothing of k8s.io, and
// portolan/internal/walls refuses such an import.
//
// The second shape was chosen: 5 MB in one program cost users less than two conversions that disagree.
package kube
