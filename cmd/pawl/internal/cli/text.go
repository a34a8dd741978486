package cli

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ClockTime is a time of day for people.
const ClockTime = "15:04:05.000"

// Plain returns s as it is if it can be shown so, and quoted otherwise. Text from others must not
// reach a terminal raw, and spaces at an end or beside another would be invisible.
func Plain(s string) string {
	hidden := s != strings.TrimSpace(s) || strings.Contains(s, "  ")
	if hidden || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}

// Base64 returns s in base64 if JSON cannot represent it, and "" if it can.
func Base64(s string) string {
	if utf8.ValidString(s) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(s))
}

// OrNone returns s, or a dash if s is empty.
func OrNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Span formats d for people to read, to two figures.
func Span(d time.Duration) string {
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

// LeaseHex formats a lease as etcdctl does.
func LeaseHex(id int64) string { return strconv.FormatInt(id, 16) }

// Count is "1 worker", "2 workers".
func Count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return strconv.Itoa(n) + " " + of + "s"
}
