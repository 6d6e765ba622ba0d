// Package pdfseald is a client of pdfseald, which seals PDFs. It needs nothing but the standard library.
//
// What may succeed later is sent again with the same Idempotency-Key, so a document is never sealed twice by a retry.
package pdfseald

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPatience       = 10 * time.Minute
	defaultRequestTimeout = 5 * time.Minute
	pauseMax              = time.Minute
)

// Job is a job as GET /v1/jobs/{id} shows it.
type Job struct {
	ID                string   `json:"id"`
	Phase             string   `json:"phase"`
	Environment       string   `json:"environment"`
	TraceID           string   `json:"trace_id"`
	ReceiptURL        string   `json:"receipt_url,omitempty"`
	SealedPDFURL      string   `json:"sealed_pdf_url,omitempty"`
	Capabilities      []string `json:"capabilities"`
	CreatedAt         string   `json:"created_at"`
	SealedAt          string   `json:"sealed_at,omitempty"`
	DocumentSHA256    string   `json:"document_sha256"`
	Purpose           string   `json:"purpose,omitempty"`
	CustomerReference string   `json:"customer_reference,omitempty"`
	Error             *Problem `json:"error,omitempty"`
}

// Problem is an error in the service's own words.
type Problem struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`
	DocURL  string `json:"doc_url"`
}

// Source is a document at a URL, with its SHA-256 in hexadecimal.
type Source struct{ URL, SHA256 string }

// Digests are those of a document that stays with you, in hexadecimal, and its length in bytes.
type Digests struct {
	SHA256, SHA512 string
	Bytes          int64
}

// Request is what to seal, and how. Exactly one of Document, Source and Digests is set.
type Request struct {
	// Document opens the document anew for each attempt; see Bytes and File.
	Document Document
	Source   *Source
	Digests  *Digests
	// Visibility is private, organization or partner.
	Visibility string
	// Mode is async (default) or blocking.
	Mode              string
	Purpose           string
	CustomerReference string
	PreserveMetadata  bool
	// SealedPDF is none (default) or attach.
	SealedPDF string
	// ChecksumSHA256 is the SHA-256 that the document must have, in hexadecimal.
	ChecksumSHA256 string
	// IdempotencyKey has 8 to 128 visible ASCII characters and is unique for the operation, such as the number of an invoice.
	// A random one is the default.
	IdempotencyKey string
}

// Receipt has the bytes of a receipt as the service gave them: keep them, not what a parser made of them.
type Receipt []byte

// Created is a job that is on disk. Replayed: an earlier request with this key created it.
type Created struct {
	Job      Job
	Replayed bool
}

// Sealed is a completed job with its receipt.
type Sealed struct {
	Created
	Receipt Receipt
}

// Filter chooses jobs; an empty member does not. CreatedFrom is inclusive, CreatedTo exclusive (RFC 3339). Limit is the length of a page.
type Filter struct {
	Phase, Visibility, DocumentSHA256, CustomerReference, CreatedFrom, CreatedTo string
	Limit                                                                        int
}

// Refused is the service's refusal of a request. Code is what to act on; RequestID is for support.
type Refused struct {
	Status    int
	RequestID string
	Problem
}

func (e *Refused) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the answer has the status %d", e.Status)
	}
	return e.Message
}

// Unreachable: no readable answer came in time. The request may have been carried out: repeat it with the same key.
type Unreachable struct{ Cause error }

func (e *Unreachable) Error() string { return "pdfseald gave no answer: " + e.Cause.Error() }
func (e *Unreachable) Unwrap() error { return e.Cause }

// JobFailed: the job has no receipt.
type JobFailed struct{ Job Job }

func (e *JobFailed) Error() string {
	if e.Job.Error == nil {
		return "the job failed"
	}
	return e.Job.Error.Message
}

// StillRunning: the job had not ended in time. It goes on: ask for it later.
type StillRunning struct{ Job Job }

func (e *StillRunning) Error() string { return "the job " + e.Job.ID + " is " + e.Job.Phase }

// Client is one pdfseald, and one API key. Several goroutines can use it at the same time. Set its members before the first request.
type Client struct {
	// Patience is how long to try again what may succeed later, and to wait for a job.
	Patience time.Duration
	// RequestTimeout is the maximum duration of one request. A large document needs more.
	RequestTimeout time.Duration
	// HTTP sends the requests, and presents a client certificate if one authenticates. It must not follow redirects: the key
	// must not reach another server.
	HTTP   *http.Client
	base   string
	apiKey string
}

// New returns a client of the pdfseald at address, with or without /v1. An empty apiKey sends none.
func New(address, apiKey string) *Client {
	base := strings.TrimSuffix(strings.TrimRight(address, "/"), "/v1") + "/v1"
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		Patience: defaultPatience, RequestTimeout: defaultRequestTimeout,
		HTTP: &http.Client{CheckRedirect: stay}, base: base, apiKey: apiKey,
	}
}

// Seal seals, and waits for the receipt. It returns *Refused, *JobFailed, *StillRunning or *Unreachable.
func (c *Client) Seal(ctx context.Context, request Request) (Sealed, error) {
	if request.Mode == "" {
		request.Mode = "blocking"
	}
	created, err := c.Create(ctx, request)
	if err != nil {
		return Sealed{}, err
	}
	job, err := c.Wait(ctx, created.Job.ID)
	if err != nil {
		return Sealed{}, err
	}
	receipt, err := c.Receipt(ctx, job.ID)
	return Sealed{Created{job, created.Replayed}, receipt}, err
}

// Create creates a job, which is on disk when it returns. It returns *Refused or *Unreachable.
func (c *Client) Create(ctx context.Context, request Request) (Created, error) {
	path, body, err := encode(request)
	if err != nil {
		return Created{}, err
	}
	key := request.IdempotencyKey
	if key == "" {
		random := make([]byte, 16)
		if _, err := rand.Read(random); err != nil {
			return Created{}, err
		}
		key = hex.EncodeToString(random)
	}
	var job Job
	answer, err := c.ask(ctx, path, body, key, &job)
	return Created{job, answer.header.Get("Idempotent-Replayed") == "true"}, err
}

// Job returns the job as it is now.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	var job Job
	_, err := c.ask(ctx, pathOf(id), nil, "", &job)
	return job, err
}

// Wait returns the completed job; *JobFailed, or *StillRunning when the patience is over.
func (c *Client) Wait(ctx context.Context, id string) (Job, error) {
	until := time.Now().Add(c.Patience)
	for {
		var job Job
		answer, err := c.ask(ctx, pathOf(id), nil, "", &job)
		if err != nil || job.Phase == "completed" {
			return job, err
		}
		if job.Phase == "failed" {
			return job, &JobFailed{job}
		}
		pause := pauseOf(answer.header, 0)
		if time.Now().Add(pause).After(until) {
			return job, &StillRunning{job}
		}
		if err := sleep(ctx, pause); err != nil {
			return job, err
		}
	}
}

// Jobs calls each with all jobs that this key can read and the filter fits, newest first. It ends early with the error of each.
func (c *Client) Jobs(ctx context.Context, filter Filter, each func(Job) error) error {
	query := url.Values{}
	for name, value := range map[string]string{
		"phase": filter.Phase, "visibility": filter.Visibility, "document_sha256": filter.DocumentSHA256,
		"customer_reference": filter.CustomerReference, "created_from": filter.CreatedFrom, "created_to": filter.CreatedTo,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if filter.Limit > 0 {
		query.Set("limit", strconv.Itoa(filter.Limit))
	}
	for {
		var page struct {
			Jobs       []Job  `json:"jobs"`
			NextCursor string `json:"next_cursor"`
		}
		if _, err := c.ask(ctx, "/jobs?"+query.Encode(), nil, "", &page); err != nil {
			return err
		}
		for _, job := range page.Jobs {
			if err := each(job); err != nil {
				return err
			}
		}
		if page.NextCursor == "" {
			return nil
		}
		query.Set("cursor", page.NextCursor)
	}
}

// Receipt returns the receipt of a completed job.
func (c *Client) Receipt(ctx context.Context, id string) (Receipt, error) {
	var members map[string]any
	answer, err := c.ask(ctx, pathOf(id)+"/receipt.json", nil, "", &members)
	return answer.body, err
}

// SealedPDF returns the document with its receipt inside, if the request asked for it.
func (c *Client) SealedPDF(ctx context.Context, id string) ([]byte, error) {
	answer, err := c.ask(ctx, pathOf(id)+"/sealed.pdf", nil, "", nil)
	return answer.body, err
}

type answer struct {
	header http.Header
	body   []byte
}

// ask sends the request, again after failures that may pass, until the patience is over. It parses the answer into a value, if there is one.
func (c *Client) ask(ctx context.Context, path string, body *body, key string, into any) (answer, error) {
	until := time.Now().Add(c.Patience)
	for attempt := 0; ; attempt++ {
		got, mayPass, err := c.try(ctx, path, body, key, into)
		if err == nil || !mayPass || ctx.Err() != nil {
			return got, err
		}
		pause := pauseOf(got.header, attempt)
		if time.Now().Add(pause).After(until) {
			return got, err
		}
		if err := sleep(ctx, pause); err != nil {
			return got, err
		}
	}
}

// try sends the request once, and says whether a repeat can help.
func (c *Client) try(ctx context.Context, path string, body *body, key string, into any) (answer, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.RequestTimeout)
	defer cancel()
	request, err := newRequest(ctx, c.base+path, body)
	if err != nil {
		return answer{}, false, err
	}
	if c.apiKey != "" {
		request.Header.Set("Authorization", "Bearer "+c.apiKey)
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return answer{}, true, &Unreachable{err}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	got := answer{response.Header, content}
	if err != nil {
		return got, true, &Unreachable{err}
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return got, mayPass(response.StatusCode, content), refusalOf(response.StatusCode, content)
	}
	if into != nil {
		if err := json.Unmarshal(content, into); err != nil {
			return got, true, &Unreachable{errors.New("the answer is not JSON")}
		}
	}
	return got, false, nil
}

func newRequest(ctx context.Context, address string, body *body) (*http.Request, error) {
	if body == nil {
		return http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	}
	content, err := body.open()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, content)
	if err != nil {
		content.Close()
		return nil, err
	}
	request.ContentLength = body.bytes
	request.Header.Set("Content-Type", body.contentType)
	return request, nil
}

func refusalOf(status int, content []byte) *Refused {
	var envelope struct {
		RequestID string  `json:"request_id"`
		Error     Problem `json:"error"`
	}
	if json.Unmarshal(content, &envelope) != nil || envelope.Error.Code == "" {
		envelope.Error.Code = "unreadable_answer"
	}
	return &Refused{status, envelope.RequestID, envelope.Error}
}

// mayPass: what a service, or a proxy in front of it, answers while it is away.
func mayPass(status int, content []byte) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return refusalOf(status, content).Code == "idempotency_in_progress"
}

// pauseOf is as long as the service says, else one, two, four seconds and so on.
func pauseOf(header http.Header, attempt int) time.Duration {
	if seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 20); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if attempt > 6 {
		return pauseMax
	}
	return min(time.Second<<attempt, pauseMax)
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func pathOf(id string) string { return "/jobs/" + url.PathEscape(id) }

func jsonBody(value any) (*body, error) {
	text, err := json.Marshal(value)
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	return &body{"application/json", int64(len(text)), open}, err
}
