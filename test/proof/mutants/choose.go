package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// options say which faults to plant.
type options struct {
	words   []string // in their names
	files   string   // that they are in
	changed string   // or those that changed since
	sample  int      // at most so many
	day     string
}

// choose returns the faults that the options name; without any, all. A word that no name contains is a
// mistake.
func (o options) choose(root string, src *sources, all []fault) ([]fault, error) {
	for _, w := range o.words {
		if !slices.ContainsFunc(all, func(f fault) bool { return strings.Contains(f.name, w) }) {
			return nil, fmt.Errorf("no fault is called %q; -list names them", w)
		}
	}
	touched := strings.FieldsFunc(o.files, func(r rune) bool { return r == ',' || r == ' ' })
	if o.changed != "" {
		out, err := exec.Command("git", "-C", root, "diff", "--name-only", o.changed).Output()
		if err != nil {
			return nil, fmt.Errorf("what changed since %s: %w", o.changed, err)
		}
		touched = append(touched, strings.Fields(string(out))...)
	}
	var chosen []fault
	for _, f := range all {
		named := len(o.words) == 0 || slices.ContainsFunc(o.words, func(w string) bool { return strings.Contains(f.name, w) })
		if !named {
			continue
		}
		if o.files != "" || o.changed != "" {
			texts, err := src.plant(f)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			if !slices.ContainsFunc(touched, func(t string) bool { _, ok := texts[path.Clean(t)]; return ok }) {
				continue
			}
		}
		chosen = append(chosen, f)
	}
	if o.sample > 0 {
		chosen = sample(chosen, o.sample, o.day)
	}
	return chosen, nil
}

// sample returns n of all, chosen by the day.
func sample(all []fault, n int, day string) []fault {
	h := fnv.New64a()
	_, _ = h.Write([]byte(day))
	r := rand.New(rand.NewPCG(h.Sum64(), 0))
	all = slices.Clone(all)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}
