package pdfseald

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const webhookAgeMax = 5 * time.Minute

// Event is what a webhook tells. Data is a Job, except for webhook.test.
type Event struct {
	Type      string          `json:"type"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// ErrWebhookRefused: the webhook is forged, altered or too old. Answer 401, and do nothing.
var ErrWebhookRefused = errors.New("the webhook is refused")

// VerifyWebhook returns the event of a webhook (Standard Webhooks 1.0.0), or an error that wraps ErrWebhookRefused. The body has the
// bytes as they arrived; secrets are those of the endpoint: two while one is replaced. The same event can arrive twice: ignore a
// webhook-id that was handled before.
func VerifyWebhook(body []byte, header http.Header, now time.Time, secrets ...string) (Event, error) {
	id, sent, signatures := header.Get("webhook-id"), header.Get("webhook-timestamp"), header.Get("webhook-signature")
	if id == "" || sent == "" || signatures == "" {
		return Event{}, fmt.Errorf("%w: a header is missing", ErrWebhookRefused)
	}
	seconds, err := strconv.ParseUint(sent, 10, 40)
	if err != nil || now.Sub(time.Unix(int64(seconds), 0)).Abs() > webhookAgeMax {
		return Event{}, fmt.Errorf("%w: it was not sent within the last five minutes", ErrWebhookRefused)
	}
	isGenuine := false
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || !strings.HasPrefix(secret, "whsec_") {
			return Event{}, errors.New("a webhook secret is whsec_ and Base64")
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, sent, body)
		expected := mac.Sum(nil)
		for _, signature := range strings.Fields(signatures) {
			text, isVersion1 := strings.CutPrefix(signature, "v1,")
			given, err := base64.StdEncoding.DecodeString(text)
			isGenuine = isGenuine || isVersion1 && err == nil && hmac.Equal(given, expected)
		}
	}
	if !isGenuine {
		return Event{}, fmt.Errorf("%w: no signature is of a secret of this endpoint", ErrWebhookRefused)
	}
	var event Event
	return event, json.Unmarshal(body, &event)
}
