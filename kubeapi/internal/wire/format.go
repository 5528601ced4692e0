package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"
)

// The media types.
const (
	JSON     = "application/json"
	YAML     = "application/yaml"
	Protobuf = "application/vnd.kubernetes.protobuf"
)

// Transform is another form in which a client wants objects.
type Transform string

// The transforms. Untransformed objects have their own type.
const (
	Untransformed Transform = ""
	Table         Transform = "Table"
	Partial       Transform = "PartialObjectMetadata"
	PartialList   Transform = "PartialObjectMetadataList"
	Discovery     Transform = "APIGroupDiscoveryList"
)

// Format is how an answer is written.
type Format struct {
	MediaType string
	As        Transform
	Version   string // of the transform's type
	Pretty    bool
}

// Default is the format of answers to clients that accept anything.
var Default = Format{MediaType: JSON}

// versions are the versions of each transform's type, by group.
var versions = map[Transform]map[string][]string{
	Table:       {"meta.k8s.io": {"v1", "v1beta1"}},
	Partial:     {"meta.k8s.io": {"v1", "v1beta1"}},
	PartialList: {"meta.k8s.io": {"v1", "v1beta1"}},
	Discovery:   {"apidiscovery.k8s.io": {"v2"}},
}

// Negotiate returns the first format that the client accepts and the server has. transforms are those
// that the answer can have.
func Negotiate(r *http.Request, transforms ...Transform) (Format, error) {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if accept == "" {
		accept = "*/*"
	}
	pretty := r.URL.Query().Get("pretty")
	known := false // whether one of the media types is, in another form
	for _, clause := range goautoneg.ParseAccept(accept) {
		format := Format{Pretty: pretty == "true" || pretty == "1"}
		switch clause.Type + "/" + clause.SubType {
		case "*/*", "application/*", JSON:
			format.MediaType = JSON
		case YAML:
			format.MediaType = YAML
		case Protobuf:
			format.MediaType = Protobuf
		default:
			continue
		}
		known = true
		if format.transform(clause.Params, transforms) {
			return format, nil
		}
	}
	return Default, NotAcceptable(known, JSON, YAML, Protobuf)
}

// transform takes the transform from the parameters of a media type. It reports whether the server can
// answer in this form.
func (f *Format) transform(params map[string]string, allowed []Transform) bool {
	f.As, f.Version = Transform(params["as"]), params["v"]
	if f.As == Untransformed {
		return true
	}
	if f.As == Table && f.MediaType == Protobuf {
		return false // Table has no protobuf
	}
	return slices.Contains(allowed, f.As) && slices.Contains(versions[f.As][params["g"]], f.Version)
}

// NotAcceptable returns the error for a client that accepts none of the media types that the answer can
// have. known reports whether the client accepts one of them, in another form.
func NotAcceptable(known bool, types ...string) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable}
	if list := strings.Join(types, ", "); known {
		status.Message = "only the following media types are accepted: " + list
	} else {
		status.Message, status.Details = "406: Not Acceptable\n\nAvailable representations: "+list, &metav1.StatusDetails{}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// ContentType returns the content type of an answer. Watches in protobuf name their framing.
func (f *Format) ContentType(watch bool) string {
	if watch && f.MediaType == Protobuf {
		return f.MediaType + ";stream=watch"
	}
	return f.MediaType
}

var protobufSerializer = protobuf.NewSerializer(nil, nil)

// Encode returns an object in the format. The object has its kind and version.
func (f *Format) Encode(o runtime.Object) ([]byte, error) {
	switch f.MediaType {
	case Protobuf:
		var out bytes.Buffer
		err := protobufSerializer.Encode(o, &out)
		return out.Bytes(), err
	case YAML:
		return yaml.Marshal(o)
	}
	if f.Pretty {
		text, err := json.MarshalIndent(o, "", "  ")
		return append(text, '\n'), err
	}
	text, err := json.Marshal(o)
	return append(text, '\n'), err
}
