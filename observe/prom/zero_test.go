package prom_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/observe"
	"github.com/pawl-locks/pawl/observe/prom"
)

// Series that alerts read exist before the first event, at 0.
func TestWhatAlertsReadBeginsAtZero(t *testing.T) {
	c := prom.New(prom.Options{})
	shows(t, c,
		`pawl_fenced_total{guard="etcd"} 0`, `pawl_fenced_total{guard="storage"} 0`, `pawl_sessions_in_jeopardy_total 0`,
		`pawl_lost_total{cause="expired",kind="lock",mode="exclusive"} 0`, `pawl_lost_total{cause="expired",kind="election",mode="exclusive"} 0`,
		`pawl_lost_total{cause="revoked",kind="lock",mode="exclusive"} 0`, `pawl_lost_total{cause="key_deleted",kind="election",mode="exclusive"} 0`,
		`pawl_lost_total{cause="expired",kind="lock",mode="shared"} 0`, `pawl_lost_total{cause="key_deleted",kind="lock",mode="semaphore"} 0`,
	)
	assert.NotContains(t, everySeries(t, c), "pawl_held", "a program that holds no election does not say that nobody leads")
	c.Observe(t.Context(), observe.CampaignEnqueued{Acquisition: observe.Acquisition{ID: 1}})
	shows(t, c, `pawl_held{kind="election",mode="exclusive"} 0`)
}

func TestWithNamesTheSeriesBeginWithTheFirstAcquisition(t *testing.T) {
	for name, first := range map[string]observe.Event{
		"enqueued": observe.CampaignEnqueued{Acquisition: observe.Acquisition{ID: 1, Name: "a"}},
		"gave up":  observe.CampaignGaveUp{Acquisition: observe.Acquisition{ID: 1, Name: "a"}},
	} {
		c := prom.New(prom.Options{Name: strings.ToLower})
		assert.NotContains(t, everySeries(t, c), "pawl_lost_total", name)
		c.Observe(t.Context(), first)
		shows(t, c, `pawl_held{kind="election",mode="exclusive",name="a"} 0`, `pawl_lost_total{cause="expired",kind="election",mode="exclusive",name="a"} 0`)
	}
}
