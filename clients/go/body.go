package pdfseald

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/textproto"
	"os"
	"strconv"
)

// Document opens a document, and tells its length in bytes. It is opened anew for each attempt.
type Document func() (io.ReadCloser, int64, error)

// Bytes is a document in memory.
func Bytes(content []byte) Document {
	return func() (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
	}
}

// File is a document on disk; it is never in memory as a whole.
func File(path string) Document {
	return func() (io.ReadCloser, int64, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, 0, err
		}
		info, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, 0, err
		}
		return file, info.Size(), nil
	}
}

// body is what a request sends.
type body struct {
	contentType string
	bytes       int64
	open        func() (io.ReadCloser, error)
}

func encode(request Request) (string, *body, error) {
	given := 0
	for _, isSet := range []bool{request.Document != nil, request.Source != nil, request.Digests != nil} {
		if isSet {
			given++
		}
	}
	if given != 1 {
		return "", nil, errors.New("set exactly one of Document, Source and Digests")
	}
	fields := map[string]any{}
	for name, value := range map[string]string{
		"visibility": request.Visibility, "mode": request.Mode, "purpose": request.Purpose,
		"customer_reference": request.CustomerReference, "sealed_pdf": request.SealedPDF,
		"checksum_sha256": request.ChecksumSHA256,
	} {
		if value != "" {
			fields[name] = value
		}
	}
	if request.PreserveMetadata {
		fields["preserve_metadata"] = true
	}
	if source := request.Source; source != nil {
		fields["source_url"], fields["checksum_sha256"] = source.URL, source.SHA256
		body, err := jsonBody(fields)
		return "/sources/seal", body, err
	}
	if digests := request.Digests; digests != nil {
		fields["document_sha256"], fields["document_sha512"] = digests.SHA256, digests.SHA512
		fields["bytes"] = digests.Bytes
		body, err := jsonBody(fields)
		return "/digests/seal", body, err
	}
	body, err := formBody(fields, request.Document)
	return "/forms/seal", body, err
}

// formBody has the fields, then the document: the service must know them before it receives the document (RFC 7578).
func formBody(fields map[string]any, document Document) (*body, error) {
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	for name, value := range fields {
		text, isText := value.(string)
		if !isText {
			text = strconv.FormatBool(value.(bool))
		}
		if err := form.WriteField(name, text); err != nil {
			return nil, err
		}
	}
	header := textproto.MIMEHeader{}
	header.Set("Content-Disposition", `form-data; name="file"; filename="document.pdf"`)
	header.Set("Content-Type", "application/pdf")
	if _, err := form.CreatePart(header); err != nil {
		return nil, err
	}
	begin := bytes.Clone(head.Bytes())
	if err := form.Close(); err != nil {
		return nil, err
	}
	end := head.Bytes()[len(begin):]
	file, size, err := document()
	if err != nil {
		return nil, err
	}
	file.Close()
	open := func() (io.ReadCloser, error) {
		file, _, err := document()
		if err != nil {
			return nil, err
		}
		// What was added to the file meanwhile is not sent: the length is promised already.
		all := io.MultiReader(bytes.NewReader(begin), io.LimitReader(file, size), bytes.NewReader(end))
		return struct {
			io.Reader
			io.Closer
		}{all, file}, nil
	}
	return &body{form.FormDataContentType(), int64(len(begin)) + size + int64(len(end)), open}, nil
}
