module queues

go 1.22
