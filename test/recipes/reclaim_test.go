package recipes

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// reclaimExamples are the page's pod and its compose file.
func reclaimExamples(t *testing.T) (pod, compose string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/reclaim.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?sm)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 2)
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: worker}\n" + blocks[0][1], blocks[1][1]
}

// Deaths are proved in memory that both containers have, as the same user.
func TestThePodOfThePageIsWhatKubernetesTakesAndSharesItsDirectory(t *testing.T) {
	text, _ := reclaimExamples(t)
	object, _, err := strict.Decode([]byte(text), nil, nil)
	require.NoError(t, err, text)
	pod := object.(*corev1.Pod).Spec
	require.Len(t, pod.Volumes, 1)
	assert.Equal(t, corev1.StorageMediumMemory, pod.Volumes[0].EmptyDir.Medium)
	assert.Positive(t, *pod.SecurityContext.RunAsUser, "of both, because the containers name none")
	require.Len(t, pod.Containers, 2)
	for _, c := range pod.Containers {
		assert.Nil(t, c.SecurityContext)
		require.Len(t, c.VolumeMounts, 1)
		assert.Equal(t, pod.Volumes[0].Name, c.VolumeMounts[0].Name)
		assert.Equal(t, pod.Containers[1].VolumeMounts[0].MountPath, c.VolumeMounts[0].MountPath)
	}
	command := pod.Containers[1].Command
	assert.Equal(t, []string{"pawl", "reap"}, command[:2])
	assert.True(t, strings.HasPrefix(command[2], pod.Containers[1].VolumeMounts[0].MountPath+"/"), "below it, because root owns it")
}

// composeFile has the fields of the compose specification that the page uses.
type composeFile struct {
	Services map[string]struct {
		Image       string            `json:"image"`
		User        string            `json:"user"`
		Volumes     []string          `json:"volumes"`
		Command     []string          `json:"command"`
		Environment map[string]string `json:"environment"`
	} `json:"services"`
	Volumes map[string]struct {
		DriverOpts map[string]string `json:"driver_opts"`
	} `json:"volumes"`
}

func TestTheComposeFileOfThePageSharesAMemoryOfOneUser(t *testing.T) {
	_, text := reclaimExamples(t)
	var file composeFile
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &file))
	require.Len(t, file.Volumes, 1)
	require.Len(t, file.Services, 2)
	run := file.Volumes["run"].DriverOpts
	assert.Equal(t, []string{"tmpfs", "tmpfs"}, []string{run["type"], run["device"]})
	for name, s := range file.Services {
		assert.NotEmpty(t, s.Image, name)
		assert.True(t, slices.Contains(strings.Split(run["o"], ","), "uid="+s.User), name)
		assert.Equal(t, []string{"run:/run/pawl"}, s.Volumes, name)
	}
	assert.Equal(t, []string{"pawl", "reap", "/run/pawl/reclaim"}, file.Services["reap"].Command)
	assert.Contains(t, file.Services["reap"].Environment, "ETCDCTL_ENDPOINTS")
}
