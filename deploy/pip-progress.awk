# What pip prints, as the steps of the first `make up`. pip's errors go past this, to standard error.
/Installing build dependencies: started/ && !tools++ { print "2/4 build tools"; fflush() }
/^Collecting / {
    split($2, name, /[][<>=!~;]/)
    print (packages++ ? "" : "3/4 packages\n") "      " name[1]
    fflush()
}
/Building editable for handrail .*: started/ { print "4/4 front-end files, from npm"; fflush() }
/^Installing collected packages/ { print "      installing " packages " packages"; fflush() }
