package main

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// clockTime is a time of day for people.
const clockTime = "15:04:05.000"

// plain is s if it can be shown as it is, and quoted otherwise: what others wrote
// must not reach a terminal raw, and spaces at an end or beside another would not be seen.
func plain(s string) string {
	hidden := s != strings.TrimSpace(s) || strings.Contains(s, "  ")
	if hidden || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}

// base64Of is s in base64 where JSON cannot carry it, and "" where it can.
func base64Of(s string) string {
	if utf8.ValidString(s) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(s))
}

// orNone is s, or a dash.
func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// span is d for people, to two figures.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-"
	case d < time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}

// kindOf is what is wanted.
func kindOf(election bool) string {
	if election {
		return "election"
	}
	return "lock"
}

// leaseHex is a lease as etcdctl writes it.
func leaseHex(id int64) string { return strconv.FormatInt(id, 16) }
