package pawlgocron_test

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/pawl-locks/pawl/lock"
)

// The schedules of robfig/cron are lock.Schedules.
func Example_schedule() {
	weekdays, err := cron.ParseStandard("CRON_TZ=Europe/Berlin 30 2 * * MON-FRI")
	if err != nil {
		fmt.Println(err)
		return
	}
	var s lock.Schedule = weekdays
	fmt.Println(s.Next(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)))
	// Output: 2026-01-05 01:30:00 +0000 UTC
}
