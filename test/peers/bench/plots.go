//go:build linux

package main

import (
	"image/color"
	"math"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgsvg" // the format of the files
)

// chart is one plot: a view of some scenarios against their sizes.
type chart struct {
	file, title, x, y string
	points            []point
	view              func(figures) float64
	scale             float64 // of the view, to the unit of y
	logY              bool
	at                []float64 // where the points are on the x axis; if nil, at their sizes
}

// point is where a chart's figures of one size come from.
type point struct {
	scenario string
	n        int
}

// charts are all of them.
func charts() []chart {
	handoff := func(hold time.Duration) (all []point) {
		for _, n := range []int{2, 10, 100, 1_000, 5_000} {
			all = append(all, point{chainName(n, hold), n})
		}
		return all
	}
	held := []point{{"held", 1_000}, {"held", 10_000}, {"held-many", 100_000}}
	return []chart{
		{"throughput.svg", "Uncontended: acquisitions and releases", "workers", "a second",
			workers, figures.throughput, 1, false, nil},
		{"handoff.svg", "Release to acquire, at the median; locks held for no time", "waiters", "ms", handoff(0), figures.p50, 1e3, true, nil},
		{"handoff-5ms.svg", "Release to acquire, at the median; locks held for 5 ms", "waiters", "ms", handoff(5 * time.Millisecond), figures.p50, 1e3, true, nil},
		{"memory.svg", "Memory of the client for all locks held", "locks held", "MiB", held,
			func(f figures) float64 { return f.Heap * float64(f.N) }, 1. / (1 << 20), true, nil},
		{"renewals.svg", "Client CPU for keeping a session for one TTL", "sessions", "µs",
			[]point{{"renewals", 100}, {"renewals", 500}, {"renewals", 1_000}, {"renewals-many", 2_000}, {"renewals-many", 10_000}}, figures.cpu, 1e6, true, nil},
		{"throughput-2ms.svg", "Uncontended, with round trips of 2 ms", "workers", "a second",
			delayedPoints(delays[0]), figures.throughput, 1, false, nil},
		{"throughput-10ms.svg", "Uncontended, with round trips of 10 ms", "workers", "a second",
			delayedPoints(delays[1]), figures.throughput, 1, false, nil},
		{"busy.svg", "Release to acquire at p90; the waiter came 10 ms before", "unrelated writes a second, and one", "ms",
			busyCurve(), figures.p90, 1e3, true, []float64{1, 201, 2_001}},
	}
}

// drawn are the kits that are in the plots: those of the lines, and those of the workers.
var drawn = append(all, batched, lone)

var colours = map[string]color.Color{
	ours: color.RGBA{R: 0x1f, G: 0x5f, B: 0xbf, A: 0xff}, oneSession: color.RGBA{R: 0x7f, G: 0xaf, B: 0xef, A: 0xff},
	theirs: color.RGBA{R: 0xc0, G: 0x50, B: 0x20, A: 0xff}, bare: color.RGBA{R: 0x70, G: 0x70, B: 0x70, A: 0xff},
	lone: color.RGBA{R: 0x7f, G: 0xaf, B: 0xef, A: 0xff}, batched: color.RGBA{R: 0xb0, G: 0xb0, B: 0xb0, A: 0xff},
}

// draw writes the charts of which there are figures to dir.
func (r *results) draw(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range charts() {
		if !r.hasAny(c) {
			continue
		}
		p, err := r.plot(c)
		if err != nil {
			return err
		}
		if err := p.Save(7*vg.Inch, 4*vg.Inch, filepath.Join(dir, c.file)); err != nil {
			return err
		}
	}
	return nil
}

func (r *results) hasAny(c chart) bool {
	for _, pt := range c.points {
		if len(r.of(pt.scenario, ours, pt.n)) > 0 {
			return true
		}
	}
	return false
}

func (r *results) plot(c chart) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for _, kit := range drawn {
		curve := r.curve(c, kit)
		if curve.Len() == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(curve)
		if err != nil {
			return nil, err
		}
		bars, err := plotter.NewYErrorBars(curve)
		if err != nil {
			return nil, err
		}
		line.Color, points.Color, bars.Color = colours[kit], colours[kit], colours[kit]
		line.Width, points.Shape = vg.Points(1.5), draw.CircleGlyph{}
		p.Add(line, points, bars)
		p.Legend.Add(kit, line, points)
	}
	if c.logY {
		p.Y.Min = r.lowest(c)
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else {
		p.Y.Min = 0
	}
	return p, nil
}

// lowest is where a logarithmic axis begins, below the least figure.
func (r *results) lowest(c chart) float64 {
	least := math.Inf(1)
	for _, kit := range drawn {
		curve := r.curve(c, kit)
		for i, xy := range curve.XYs {
			least = min(least, xy.Y-curve.YErrors[i].Low)
		}
	}
	return least * 0.8
}

// curve is the medians of a kit, with the extremes of the rounds.
type curve struct {
	plotter.XYs
	plotter.YErrors
}

func (r *results) curve(c chart, kit string) (all curve) {
	for i, pt := range c.points {
		x := float64(pt.n)
		if c.at != nil {
			x = c.at[i]
		}
		s := r.spread(pt.scenario, kit, pt.n, c.view)
		if math.IsNaN(s.median) || c.logY && s.least <= 0 {
			continue
		}
		all.XYs = append(all.XYs, plotter.XY{X: x, Y: s.median * c.scale})
		all.YErrors = append(all.YErrors, struct{ Low, High float64 }{(s.median - s.least) * c.scale, (s.most - s.median) * c.scale})
	}
	return all
}
