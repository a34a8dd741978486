package cluster

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// tokenLife is how long a JSON web token lasts according to its claims; 0 if it does not say,
// or is another kind of token. Nothing is verified: this only decides when to fetch the next
// one, and a wrong answer costs one refusal.
func tokenLife(token string, now time.Time) time.Duration {
	_, rest, ok := strings.Cut(token, ".")
	if !ok {
		return 0
	}
	payload, _, ok := strings.Cut(rest, ".")
	if !ok {
		return 0
	}
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return 0
	}
	var claims struct {
		Exp int64 `json:"exp"`
	}
	if json.Unmarshal(text, &claims) != nil || claims.Exp <= 0 {
		return 0
	}
	return max(0, time.Unix(claims.Exp, 0).Sub(now))
}
