module pdfseald.example/client

go 1.21
