package recipes

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// strict refuses fields that Kubernetes does not know.
var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// The manifests of the page and of pawld are what Kubernetes takes: no field is misspelt.
func TestManifestsAreWhatKubernetesTakes(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/kubernetes.md")
	require.NoError(t, err)
	manifests := map[string]bool{} // whether it is one of a Pod's
	for _, b := range regexp.MustCompile("(?sm)^```yaml\n(apiVersion: .*?)^```").FindAllStringSubmatch(string(page), -1) {
		manifests[b[1]] = false
	}
	sidecar, err := os.ReadFile("../../cmd/pawld/deploy/sidecar.yaml")
	require.NoError(t, err)
	manifests[string(sidecar)] = true
	require.Len(t, manifests, 2)
	for text, pod := range manifests {
		object, _, err := strict.Decode([]byte(text), nil, nil)
		require.NoError(t, err, text)
		if pod {
			assert.IsType(t, &corev1.Pod{}, object)
		} else {
			containers := object.(*batchv1.CronJob).Spec.JobTemplate.Spec.Template.Spec.Containers
			require.Len(t, containers, 1)
			assert.Equal(t, []string{"pawl", "lock", "--once", "now/1d", "nightly", "--", "./nightly.sh"}, containers[0].Command)
		}
	}
}
