module execd-stand-in

go 1.25
