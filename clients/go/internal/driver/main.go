// Runs the cases of clients/conformance: one on each line of the input, and its answer on a line of the output.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	pdfseald "pdfseald.example/client"
)

type given struct {
	ID                string            `json:"id"`
	Document          *string           `json:"document"`
	Source            *pdfseald.Source  `json:"source"`
	Digests           *pdfseald.Digests `json:"digests"`
	Visibility        string            `json:"visibility"`
	Mode              string            `json:"mode"`
	Purpose           string            `json:"purpose"`
	CustomerReference string            `json:"customer_reference"`
	PreserveMetadata  bool              `json:"preserve_metadata"`
	SealedPDF         string            `json:"sealed_pdf"`
	ChecksumSHA256    string            `json:"checksum_sha256"`
	IdempotencyKey    string            `json:"idempotency_key"`
	Phase             string            `json:"phase"`
	DocumentSHA256    string            `json:"document_sha256"`
	Limit             int               `json:"limit"`
	Body              string            `json:"body"`
	Headers           map[string]string `json:"headers"`
	Secrets           []string          `json:"secrets"`
}

type oneCase struct {
	URL      string  `json:"url"`
	APIKey   string  `json:"api_key"`
	Patience float64 `json:"patience"`
	Do       string  `json:"do"`
	With     given   `json:"with"`
}

func (g given) request() pdfseald.Request {
	request := pdfseald.Request{
		Source: g.Source, Digests: g.Digests, Visibility: g.Visibility, Mode: g.Mode, Purpose: g.Purpose,
		CustomerReference: g.CustomerReference, PreserveMetadata: g.PreserveMetadata, SealedPDF: g.SealedPDF,
		ChecksumSHA256: g.ChecksumSHA256, IdempotencyKey: g.IdempotencyKey,
	}
	if g.Document != nil {
		request.Document = pdfseald.Bytes([]byte(*g.Document))
	}
	return request
}

func run(one oneCase) (map[string]any, error) {
	ctx, with := context.Background(), one.With
	client := pdfseald.New(one.URL, one.APIKey)
	client.Patience = time.Duration(one.Patience * float64(time.Second))
	switch one.Do {
	case "create":
		created, err := client.Create(ctx, with.request())
		return map[string]any{"job": created.Job, "replayed": created.Replayed}, err
	case "seal":
		sealed, err := client.Seal(ctx, with.request())
		return map[string]any{"job": sealed.Job, "receipt": json.RawMessage(sealed.Receipt), "replayed": sealed.Replayed}, err
	case "job":
		job, err := client.Job(ctx, with.ID)
		return map[string]any{"job": job}, err
	case "wait":
		job, err := client.Wait(ctx, with.ID)
		return map[string]any{"job": job}, err
	case "receipt":
		receipt, err := client.Receipt(ctx, with.ID)
		digest := sha256.Sum256(receipt)
		return map[string]any{"receipt": json.RawMessage(receipt), "sha256": hex.EncodeToString(digest[:])}, err
	case "sealed_pdf":
		pdf, err := client.SealedPDF(ctx, with.ID)
		return map[string]any{"bytes": len(pdf)}, err
	case "jobs":
		ids := []string{}
		filter := pdfseald.Filter{
			Phase: with.Phase, Visibility: with.Visibility, DocumentSHA256: with.DocumentSHA256,
			CustomerReference: with.CustomerReference, Limit: with.Limit,
		}
		err := client.Jobs(ctx, filter, func(job pdfseald.Job) error {
			ids = append(ids, job.ID)
			return nil
		})
		return map[string]any{"ids": ids}, err
	case "webhook":
		header := http.Header{}
		for name, value := range with.Headers {
			header.Set(name, value)
		}
		event, err := pdfseald.VerifyWebhook([]byte(with.Body), header, time.Now(), with.Secrets...)
		return map[string]any{"type": event.Type}, err
	}
	return nil, fmt.Errorf("there is no operation %s", one.Do)
}

func thrown(err error) map[string]any {
	var refused *pdfseald.Refused
	var unreachable *pdfseald.Unreachable
	var failed *pdfseald.JobFailed
	var running *pdfseald.StillRunning
	switch {
	case errors.As(err, &refused):
		return map[string]any{"kind": "refused", "code": refused.Code, "status": refused.Status}
	case errors.As(err, &failed):
		return map[string]any{"kind": "job_failed", "code": failed.Job.Error.Code}
	case errors.As(err, &running):
		return map[string]any{"kind": "still_running"}
	case errors.As(err, &unreachable):
		return map[string]any{"kind": "unreachable"}
	case errors.Is(err, pdfseald.ErrWebhookRefused):
		return map[string]any{"kind": "webhook_refused"}
	}
	return map[string]any{"kind": err.Error()}
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	for input.Scan() {
		var one oneCase
		if err := json.Unmarshal(input.Bytes(), &one); err != nil {
			panic(err)
		}
		gives, err := run(one)
		answer := map[string]any{"gives": gives}
		if err != nil {
			answer = map[string]any{"throws": thrown(err)}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}
