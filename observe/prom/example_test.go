package prom_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe/prom"
	"github.com/pawl-locks/pawl/test/pawltest"
)

func Example() {
	t := exampletb.Begin() // in a test, its own *testing.T
	defer t.End()
	cluster := pawltest.New(t) // in production, a real one and pawl.Dial
	ctx := context.Background()

	metrics := prom.New(prom.Options{
		// "reports/2026-11-21" and all its like are one series.
		Name: func(name string) string { kind, _, _ := strings.Cut(name, "/"); return kind },
	})
	registry := prometheus.NewRegistry() // or prometheus.MustRegister, and promhttp.Handler
	registry.MustRegister(metrics)

	client := cluster.Client(t, pawl.Config{Observer: metrics})
	session, err := client.Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = lock.New(session, "reports/2026-11-21", lock.Options{}).Do(ctx, func(context.Context, *lock.Held) error {
		show(registry, "pawl_held")
		return nil
	})
	fmt.Println(err)
	show(registry, "pawl_held")
	// Output:
	// pawl_held kind=lock mode=exclusive name=reports 1
	// <nil>
	// pawl_held kind=lock mode=exclusive name=reports 0
}

// show prints one metric as a scrape finds it.
func show(registry *prometheus.Registry, name string) {
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			fmt.Print(name)
			for _, l := range m.Label {
				fmt.Printf(" %s=%s", l.GetName(), l.GetValue())
			}
			fmt.Println("", m.GetGauge().GetValue())
		}
	}
}
