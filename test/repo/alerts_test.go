package repo_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

var (
	anAlert   = regexp.MustCompile(`(?m)^ *- alert: (\w+)`)
	aRunbook  = regexp.MustCompile(`(?m)^ *runbook_url: https://github\.com/pawl-locks/pawl/blob/main/(\S+)#(\S+)$`)
	ownAlerts = []string{"observe/prom/alerts.yaml", "cmd/pawld/deploy/alerts.yaml"}
)

// Whoever is paged is led to the line of the page that explains that alert.
func TestEachAlertLeadsToItsExplanation(t *testing.T) {
	for _, file := range ownAlerts {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		alerts := anAlert.FindAllStringSubmatchIndex(string(text), -1)
		require.NotEmpty(t, alerts, file)
		for i, at := range alerts {
			name, end := string(text[at[2]:at[3]]), len(text)
			if i+1 < len(alerts) {
				end = alerts[i+1][0]
			}
			url := aRunbook.FindStringSubmatch(string(text[at[0]:end]))
			if !assert.NotNil(t, url, "%s has no runbook_url", name) {
				continue
			}
			page, err := os.ReadFile(filepath.FromSlash(url[1]))
			require.NoError(t, err)
			assert.Equal(t, strings.ToLower(name), url[2])
			assert.Contains(t, string(page), `<a id="`+url[2]+`"></a>`+"`"+name+"`", url[1])
		}
	}
}
