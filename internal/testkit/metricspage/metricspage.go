// Package metricspage reads docs/reference/metrics.md and files of alerts, for the tests that
// compare them with the actual metrics.
package metricspage

import (
	"regexp"
	"slices"
	"strings"
)

// A Row is what the page says of a metric. Its slices are empty if the page says nothing.
type Row struct {
	Type, Unit string
	Labels     []string
	Last       []string // alerts, or the same metric in Prometheus
}

var (
	line = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(.*)\\|$")
	code = regexp.MustCompile("`([^`]+)`")
)

// Rows returns the rows of metrics whose names begin with prefix.
func Rows(page, prefix string) map[string]Row {
	rows := map[string]Row{}
	for _, m := range line.FindAllStringSubmatch(page, -1) {
		cells := strings.Split(m[2], "|")
		if !strings.HasPrefix(m[1], prefix) || len(cells) != 5 {
			continue
		}
		rows[m[1]] = Row{strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), codes(cells[2]), codes(cells[4])}
	}
	return rows
}

func codes(cell string) []string {
	words := []string{}
	for _, m := range code.FindAllStringSubmatch(cell, -1) {
		words = append(words, m[1])
	}
	return words
}

var (
	alert  = regexp.MustCompile(`(?m)^ *- alert: `)
	series = regexp.MustCompile(`\bpawld?_\w+`)
)

// Alerts returns the names of the alerts in rules that read metric, or a part of it if it is
// a histogram.
func Alerts(rules, metric string) []string {
	names := []string{}
	for _, rule := range alert.Split(rules, -1)[1:] {
		name, rest, _ := strings.Cut(rule, "\n")
		if slices.ContainsFunc(series.FindAllString(rest, -1), func(s string) bool {
			return s == metric || s == metric+"_bucket" || s == metric+"_sum" || s == metric+"_count"
		}) {
			names = append(names, name)
		}
	}
	return names
}
