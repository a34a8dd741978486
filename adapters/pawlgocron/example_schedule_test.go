package pawlgocron_test

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/pawl-locks/pawl/lock"
)

// The schedules of robfig/cron are lock.Schedules.
func Example_schedule() {
	weekdays, err := cron.ParseStandard("CRON_TZ=Europe/Berlin 30 4 * * MON-FRI")
	if err != nil {
		fmt.Println(err)
		return
	}
	var s lock.Schedule = weekdays
	fmt.Println(s.Next(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)))
	// Output: 2026-01-05 03:30:00 +0000 UTC
}

// What docs/how-to/schedules.md says of robfig/cron and daylight saving.
func Example_daylightSaving() {
	for _, spec := range []string{"30 2 * * *", "30 4 * * *"} {
		s, err := cron.ParseStandard("CRON_TZ=Europe/Berlin " + spec)
		if err != nil {
			fmt.Println(err)
			return
		}
		in := func(year int, month time.Month, day int) (n int) {
			begin := time.Date(year, month, day, 12, 0, 0, 0, time.UTC)
			for t := s.Next(begin); t.Before(begin.AddDate(0, 0, 1)); t = s.Next(t) {
				n++
			}
			return n
		}
		fmt.Println(spec, "in spring:", in(2026, time.March, 28), "in autumn:", in(2026, time.October, 24))
	}
	// Output:
	// 30 2 * * * in spring: 0 in autumn: 2
	// 30 4 * * * in spring: 1 in autumn: 1
}
